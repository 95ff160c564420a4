// Memory in which micro-benchmarks work: mapped, written once, in base pages or in huge ones where the kernel gives
// these.
#pragma once

#include <cstddef>
#include <cstdint>

namespace nearfield::calibrate {

enum class PageKind { base, huge };

inline constexpr std::size_t huge_page_bytes = std::size_t{2} << 20;

// Maps new memory that nobody has touched, aligned to huge pages. Throws std::bad_alloc if there is none.
std::byte* map_pages(std::size_t bytes, PageKind pages);
void unmap_pages(std::byte* data, std::size_t bytes);

class Block {
 public:
  // Every page is written. Throws std::bad_alloc if there is not so much memory.
  Block(std::size_t bytes, PageKind pages);
  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  std::byte* data() const { return data_; }
  std::size_t size() const { return bytes_; }
  // Returns how many of its bytes lie in huge pages, as the kernel says (/proc/self/smaps).
  std::size_t bytes_in_huge_pages() const;

 private:
  std::byte* data_;
  std::size_t bytes_;
};

}  // namespace nearfield::calibrate

// Memory for micro-benchmarks, mapped in base pages, or in huge pages as far as the kernel provides them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace nearfield::calibrate {

enum class PageKind { base, huge };

inline constexpr std::size_t huge_page_bytes = std::size_t{2} << 20;

// Maps new, untouched memory, aligned to huge pages. Throws std::bad_alloc on failure.
std::byte* map_pages(std::size_t bytes, PageKind page_kind);
void unmap_pages(std::byte* data, std::size_t bytes);

class MemoryBlock {
 public:
  // Maps the memory, and writes every page. Throws std::bad_alloc on failure.
  MemoryBlock(std::size_t bytes, PageKind page_kind);
  ~MemoryBlock();
  MemoryBlock(const MemoryBlock&) = delete;
  MemoryBlock& operator=(const MemoryBlock&) = delete;

  std::byte* data() const { return data_; }
  std::size_t size() const { return bytes_; }
  // Returns the number of the block's bytes that are in huge pages, according to /proc/self/smaps.
  std::size_t bytes_in_huge_pages() const;

 private:
  std::byte* data_;
  std::size_t bytes_;
};

}  // namespace nearfield::calibrate

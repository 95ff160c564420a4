// Message buffers as in an application: on the heap, page-aligned, with pages that the bound rank has written first, so
// that no page is the kernel's shared zero page.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace nearfield::probe {

class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::size_t bytes);
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  std::span<std::byte> first(std::size_t bytes) const { return {data_, bytes}; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Fills `memory` with a pattern of 8-byte words that depend on `seed` and on their position.
void fill_pattern(std::span<std::byte> memory, unsigned seed);
/// Compares `memory` with the pattern of fill_pattern(). Returns a message that names the first wrong word by its byte
/// offset; an empty string if all words match.
std::string find_pattern_error(std::span<const std::byte> memory, unsigned seed);

}  // namespace nearfield::probe

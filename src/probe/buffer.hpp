// Message buffers like an application's: from the heap, page-aligned, written (never the kernel's shared zero page),
// first touched by the bound rank.
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

/// Fills with a pattern of 8-byte words that differ by seed and position.
void fill_pattern(std::span<std::byte> memory, unsigned seed);
/// Returns where and how `memory` differs from the pattern; empty if it does not.
std::string pattern_problem(std::span<const std::byte> memory, unsigned seed);

}  // namespace nearfield::probe

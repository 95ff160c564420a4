#include "probe/buffer.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace nearfield::probe {
namespace {

constexpr std::size_t page = 4096;

std::uint64_t pattern_word(unsigned seed, std::size_t i) {
  return (i + 1) * 0x9e3779b97f4a7c15ull + seed * 0xd1b54a32d192ed03ull;
}

}  // namespace

Buffer::Buffer(std::size_t bytes) : size_(bytes) {
  data_ = static_cast<std::byte*>(std::aligned_alloc(page, (bytes + page - 1) / page * page));
  if (!data_) throw std::bad_alloc();
  fill_pattern({data_, size_}, 1);
}

Buffer::~Buffer() { std::free(data_); }

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

void fill_pattern(std::span<std::byte> memory, unsigned seed) {
  const std::size_t words = memory.size() / 8;
  for (std::size_t i = 0; i < words; ++i) {
    const std::uint64_t word = pattern_word(seed, i);
    std::memcpy(memory.data() + 8 * i, &word, 8);
  }
  const std::uint64_t last = pattern_word(seed, words);
  if (memory.size() % 8) std::memcpy(memory.data() + 8 * words, &last, memory.size() % 8);
}

std::string find_pattern_error(std::span<const std::byte> memory, unsigned seed) {
  for (std::size_t i = 0; 8 * i < memory.size(); ++i) {
    const std::uint64_t word = pattern_word(seed, i);
    if (std::memcmp(memory.data() + 8 * i, &word, std::min<std::size_t>(8, memory.size() - 8 * i)) != 0)
      return "the data that arrived is wrong at byte " + std::to_string(8 * i) + " of " + std::to_string(memory.size());
  }
  return "";
}

}  // namespace nearfield::probe

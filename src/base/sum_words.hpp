// Reads memory in order, as fast as one core can. All benchmarks that read memory use this loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace nearfield {

/// Returns the sum of all 8-byte words of the memory plus the remaining bytes. Uses vector types explicitly, since the
/// speed of auto-vectorised sums differs between compilers by a factor of up to eight.
inline std::uint64_t sum_words(std::span<const std::byte> memory) {
  using Words = std::uint64_t __attribute__((vector_size(16)));
  constexpr std::size_t size = sizeof(Words), block = 4 * size;
  const auto load = [](const std::byte* from) {
    Words words;
    std::memcpy(&words, from, sizeof words);
    return words;
  };
  Words a{}, b{}, c{}, d{};
  const std::byte* at = memory.data();
  const std::byte* const end = at + memory.size();
  for (; static_cast<std::size_t>(end - at) >= block; at += block) {
    a += load(at);
    b += load(at + size);
    c += load(at + 2 * size);
    d += load(at + 3 * size);
  }
  a += b + c + d;
  std::uint64_t sum = a[0] + a[1];
  for (; end - at >= 8; at += 8) {
    std::uint64_t word;
    std::memcpy(&word, at, sizeof word);
    sum += word;
  }
  for (; at < end; ++at) sum += std::to_integer<std::uint64_t>(*at);
  return sum;
}

}  // namespace nearfield

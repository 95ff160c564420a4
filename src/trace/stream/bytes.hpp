// Variable-length numbers (LEB128): seven bits per byte, lowest first; the eighth bit says that more follow. Signed
// numbers are zigzag-encoded (0, -1, 1, -2, ...), so that small magnitudes are short.
#pragma once

#include <cstdint>

namespace nearfield::stream {

constexpr int max_bytes = 10;  // per number

constexpr std::uint64_t zigzag_encode(std::int64_t value) {
  return static_cast<std::uint64_t>(value) << 1 ^ static_cast<std::uint64_t>(value >> 63);
}
constexpr std::int64_t zigzag_decode(std::uint64_t value) {
  return static_cast<std::int64_t>(value >> 1) ^ -static_cast<std::int64_t>(value & 1);
}

// Returns the position after the number.
inline unsigned char* put(unsigned char* to, std::uint64_t value) {
  while (value >= 128) {
    *to++ = static_cast<unsigned char>(value | 128);
    value >>= 7;
  }
  *to++ = static_cast<unsigned char>(value);
  return to;
}

// Returns the position after the number, or nullptr if it is not complete before `end`.
inline const unsigned char* get(const unsigned char* from, const unsigned char* end, std::uint64_t& value) {
  value = 0;
  for (int shift = 0; from != end && shift < 64; shift += 7) {
    const unsigned char byte = *from++;
    value |= std::uint64_t{byte & 127u} << shift;
    if (byte < 128) return from;
  }
  return nullptr;
}

}  // namespace nearfield::stream

// Variable-length numbers (LEB128): seven bits per byte, least significant first; the eighth bit is set if more bytes
// follow. Signed numbers are zigzag-encoded (0, -1, 1, -2, ...), so that small magnitudes are short.
#pragma once

#include <cstdint>

namespace nearfield::stream {

constexpr int max_number_bytes = 10;  // maximum length of a number

constexpr std::uint64_t zigzag_encode(std::int64_t value) {
  return static_cast<std::uint64_t>(value) << 1 ^ static_cast<std::uint64_t>(value >> 63);
}
constexpr std::int64_t zigzag_decode(std::uint64_t value) {
  return static_cast<std::int64_t>(value >> 1) ^ -static_cast<std::int64_t>(value & 1);
}

// Writes a number. Returns the position after it.
inline unsigned char* put_number(unsigned char* to, std::uint64_t value) {
  while (value >= 128) {
    *to++ = static_cast<unsigned char>(value | 128);
    value >>= 7;
  }
  *to++ = static_cast<unsigned char>(value);
  return to;
}

// Reads a number. Returns the position after it, or nullptr if the number is not complete before `end`.
inline const unsigned char* get_number(const unsigned char* from, const unsigned char* end, std::uint64_t& value) {
  value = 0;
  for (int shift = 0; from != end && shift < 64; shift += 7) {
    const unsigned char byte = *from++;
    value |= std::uint64_t{byte & 127u} << shift;
    if (byte < 128) return from;
  }
  return nullptr;
}

}  // namespace nearfield::stream

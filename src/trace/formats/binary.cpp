// The binary format: little-endian 64-bit addresses without a header. Each is a load of 8 bytes.
#include "trace/format.hpp"

namespace nearfield::trace {
namespace {

ParseResult parse_binary_record(std::string_view record, AccessSink& accesses) {
  std::uint64_t address = 0;
  for (std::size_t i = 0; i < 8; ++i) address |= std::uint64_t{static_cast<unsigned char>(record[i])} << 8 * i;
  accesses.add_load(address, 8);
  return ParseResult::access;
}

}  // namespace

extern const FormatSpec binary_format;
const FormatSpec binary_format{"binary", "64-bit addresses, little-endian: loads of 8 bytes",
                               "addresses of 8 bytes each, little-endian, and nothing else", 8, parse_binary_record};

}  // namespace nearfield::trace

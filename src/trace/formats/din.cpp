// Traces of the cache simulator Dinero. A line of Dinero III is "label address", with label 0 (read), 1 (write), 2
// (instruction fetch), 3 (miscellaneous, simulated as a load), 4 or 5 (copy back, invalidate: not simulated) and a
// hexadecimal address; the access is to the 4-byte word that contains the address, and the rest of the line is a
// comment. A line of Dinero IV's extended format is "label address size", with the labels r, w, i, m, c and v in the
// same order, and a hexadecimal size.
#include "trace/format.hpp"
#include "trace/lines.hpp"

namespace nearfield::trace {
namespace {

constexpr std::string_view labels = "rwimcv";

ParseResult read_din(std::string_view line, AccessSink& accesses) {
  LineCursor at(line);
  at.skip_blanks();
  const char first = at.take_char();
  const bool extended = first > '9';
  const auto label = extended ? labels.find(static_cast<char>(first | 0x20)) : static_cast<std::size_t>(first - '0');
  if (label >= labels.size() || !at.is_at_blank()) return ParseResult::unreadable;
  at.skip_blanks();
  auto address = at.parse_hex();
  if (!address || !(at.is_at_end() || at.is_at_blank())) return ParseResult::unreadable;
  std::uint64_t bytes = 4;
  if (extended) {
    at.skip_blanks();
    const auto size = at.parse_hex();
    if (!size || !(at.is_at_end() || at.is_at_blank())) return ParseResult::unreadable;
    bytes = *size;
  } else {
    *address &= ~std::uint64_t{3};
  }
  if (label > 3) {
    accesses.count_other();
    return ParseResult::read;
  }
  if (!AccessSink::is_valid_size(bytes)) return ParseResult::unreadable;
  if (label == 1)
    accesses.add_store(*address, bytes);
  else if (label == 2)
    accesses.add_instruction(*address, bytes);
  else
    accesses.add_load(*address, bytes);
  return ParseResult::read;
}

}  // namespace

extern const FormatSpec din_format;
const FormatSpec din_format{"din", "Dinero III (label address) and Dinero IV (label address size)",
                            "'0 7fe400' (0 read, 1 write, 2 instruction; hexadecimal) or 'r 7fe400 8' (r, w, i)", 0,
                            read_din};

}  // namespace nearfield::trace

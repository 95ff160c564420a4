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

ParseResult parse_din_record(std::string_view line, AccessSink& accesses) {
  LineCursor cursor(line);
  cursor.skip_blanks();
  const char first = cursor.take_char();
  const bool is_extended = first > '9';
  const auto label = is_extended ? labels.find(static_cast<char>(first | 0x20)) : static_cast<std::size_t>(first - '0');
  if (label >= labels.size() || !cursor.is_at_blank()) return ParseResult::unreadable;
  cursor.skip_blanks();
  auto address = cursor.parse_hex();
  if (!address || !(cursor.is_at_end() || cursor.is_at_blank())) return ParseResult::unreadable;
  std::uint64_t bytes = 4;
  if (is_extended) {
    cursor.skip_blanks();
    const auto size = cursor.parse_hex();
    if (!size || !(cursor.is_at_end() || cursor.is_at_blank())) return ParseResult::unreadable;
    bytes = *size;
  } else {
    *address &= ~std::uint64_t{3};
  }
  if (label > 3) {
    accesses.count_unsimulated_record();
    return ParseResult::access;
  }
  if (!AccessSink::is_valid_size(bytes)) return ParseResult::unreadable;
  if (label == 1)
    accesses.add_store(*address, bytes);
  else if (label == 2)
    accesses.add_instruction(*address, bytes);
  else
    accesses.add_load(*address, bytes);
  return ParseResult::access;
}

}  // namespace

extern const FormatSpec din_format;
const FormatSpec din_format{"din", "Dinero III (label address) and Dinero IV (label address size)",
                            "'0 7fe400' (0 read, 1 write, 2 instruction; hexadecimal) or 'r 7fe400 8' (r, w, i)", 0,
                            parse_din_record};

}  // namespace nearfield::trace

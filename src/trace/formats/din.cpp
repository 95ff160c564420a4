// Traces for Dinero. Dinero III's lines are "label address", with labels 0 (read), 1 (write), 2 (instruction), 3
// (miscellaneous: a load), 4 and 5 (copy back and invalidate, which are left out); the address is hexadecimal, an
// access is to the 4-byte word that contains it, and the rest of a line is a comment. Lines of Dinero IV's extended
// format are "label address size", with labels r, w, i, m, c and v of the same meanings, and a hexadecimal size.
#include "trace/format.hpp"
#include "trace/lines.hpp"

namespace nearfield::trace {
namespace {

constexpr std::string_view labels = "rwimcv";

Record read_din(std::string_view line, Accesses& accesses) {
  Cursor at(line);
  at.blanks();
  const char first = at.next();
  const bool extended = first > '9';
  const auto label = extended ? labels.find(static_cast<char>(first | 0x20)) : static_cast<std::size_t>(first - '0');
  if (label >= labels.size() || !at.at_blank()) return Record::unreadable;
  at.blanks();
  auto address = at.hex();
  if (!address || !(at.done() || at.at_blank())) return Record::unreadable;
  std::uint64_t bytes = 4;
  if (extended) {
    at.blanks();
    const auto size = at.hex();
    if (!size || !(at.done() || at.at_blank())) return Record::unreadable;
    bytes = *size;
  } else {
    *address &= ~std::uint64_t{3};
  }
  if (label > 3) {
    accesses.other();
    return Record::read;
  }
  if (!Accesses::is_size(bytes)) return Record::unreadable;
  if (label == 1)
    accesses.store(*address, bytes);
  else if (label == 2)
    accesses.instruction(*address, bytes);
  else
    accesses.load(*address, bytes);
  return Record::read;
}

}  // namespace

extern const FormatSpec din_format;
const FormatSpec din_format{"din", "Dinero III (label address) and Dinero IV (label address size)",
                            "'0 7fe400' (0 read, 1 write, 2 instruction; hexadecimal) or 'r 7fe400 8' (r, w, i)", 0,
                            read_din};

}  // namespace nearfield::trace

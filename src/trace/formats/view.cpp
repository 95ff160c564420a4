// The text output of DynamoRIO's view tool (drcachesim -tool view, formerly -simulator_type view), which includes
// threads. Its prefix has changed over the years, its records hardly:
//
//       47446       37770:     2765543 read         8 byte(s) @ 0x00007fdf64e2adc8 by PC 0x0000000000404a7e
//       47446       37770:     W0.T292 read         8 byte(s) @ 0x00007fdf64e2adc8 by PC 0x0000000000404a7e
//      173371: T1774669 write        8 byte(s) @ 0x00007f8881e37a70 by PC 0x0000000000402680
//   T468608   0x0000000000467c45  4c 8b 54 24 08       mov    0x08(%rsp), %r10
//   T468608     read  8 byte(s) @ 0x7fff9f5fd9b0
//
// Prefetches and flushes are left out, as are headings, markers, totals, and the second line of long instructions.
#include <algorithm>

#include "trace/format.hpp"
#include "trace/lines.hpp"

namespace nearfield::trace {
namespace {

// Consumes the prefix of a record. Returns its thread; nothing if there is no such prefix.
std::optional<std::uint64_t> take_thread(Cursor& at) {
  at.blanks();
  if (!at.take("T")) {
    if (!at.decimal()) return std::nullopt;
    at.blanks();
    at.decimal();
    if (!at.take(":")) return std::nullopt;
    at.blanks();
    std::uint64_t workload = 0;
    if (at.take("W")) {
      const auto number = at.decimal();
      if (!number || !at.take(".")) return std::nullopt;
      workload = *number;
    }
    at.take("T");
    const auto thread = at.decimal();
    if (!thread || !at.at_blank()) return std::nullopt;
    return workload << 48 ^ *thread;
  }
  const auto thread = at.decimal();
  return at.at_blank() ? thread : std::nullopt;
}

bool is_byte(std::string_view word) {
  return word.size() == 2 && Cursor::hex_digit(word[0]) >= 0 && Cursor::hex_digit(word[1]) >= 0;
}

std::uint64_t take_bytes(Cursor& at) {
  std::uint64_t bytes = 0;
  for (at.blanks(); is_byte(at.word()); at.blanks()) ++bytes;
  return bytes;
}

Record read_record(Cursor& at, Accesses& accesses) {
  if (at.peek() == '<') return Record::nothing;
  if (at.take("0x")) {  // an instruction in the older form: its address and its bytes
    const auto address = at.hex();
    const auto bytes = take_bytes(at);
    if (!address || bytes == 0) return Record::unreadable;
    accesses.instruction(*address, bytes);
    return Record::read;
  }
  const auto what = at.word();
  if (is_byte(what)) return Record::nothing;
  at.blanks();
  const auto bytes = at.decimal();
  if (!bytes || !at.take(" byte(s) @ ")) return Record::unreadable;
  const auto address = at.hex();
  if (!address || !(at.done() || at.at_blank())) return Record::unreadable;
  if (what.starts_with("pref") || what == "iflush" || what == "dflush") {
    accesses.other();
    return Record::read;
  }
  if (!Accesses::is_size(*bytes)) return Record::unreadable;
  if (what == "read")
    accesses.load(*address, *bytes);
  else if (what == "write")
    accesses.store(*address, *bytes);
  else if (what == "ifetch")
    accesses.instruction(*address, *bytes);
  else
    return Record::unreadable;
  return Record::read;
}

// Headings and totals.
bool is_remark(std::string_view line) {
  for (const std::string_view heading : {"Output format:", "<", "---", "===", "View tool results:", "Trace invariant"})
    if (line.starts_with(heading)) return true;
  Cursor at(line);
  at.blanks();
  if (at.decimal()) {
    at.blanks();
    if (at.take(": total ")) return true;
  }
  at = Cursor(line);
  return take_bytes(at) > 0 && at.done();
}

Record read_view(std::string_view line, Accesses& accesses) {
  Cursor at(line);
  const auto thread = take_thread(at);
  if (!thread) return is_remark(line) ? Record::nothing : Record::unreadable;
  at.blanks();
  accesses.thread(*thread);
  return read_record(at, accesses);
}

}  // namespace

extern const FormatSpec view_format;
const FormatSpec view_format{
    "view", "DynamoRIO: drrun -t drcachesim -tool view (or -simulator_type view), with threads",
    "'47446 37770: 2765543 read 8 byte(s) @ 0x00007fdf64e2adc8 by PC 0x0000000000404a7e', as the "
    "view tool writes it to stderr",
    0, read_view};

}  // namespace nearfield::trace

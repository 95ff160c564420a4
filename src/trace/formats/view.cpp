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

// Consumes the prefix of a record. Returns the thread id in it; std::nullopt if the prefix is of none of these forms.
std::optional<std::uint64_t> take_thread(LineCursor& at) {
  at.skip_blanks();
  if (!at.take_prefix("T")) {
    if (!at.parse_decimal()) return std::nullopt;
    at.skip_blanks();
    at.parse_decimal();
    if (!at.take_prefix(":")) return std::nullopt;
    at.skip_blanks();
    std::uint64_t workload = 0;
    if (at.take_prefix("W")) {
      const auto number = at.parse_decimal();
      if (!number || !at.take_prefix(".")) return std::nullopt;
      workload = *number;
    }
    at.take_prefix("T");
    const auto thread = at.parse_decimal();
    if (!thread || !at.is_at_blank()) return std::nullopt;
    return workload << 48 ^ *thread;
  }
  const auto thread = at.parse_decimal();
  return at.is_at_blank() ? thread : std::nullopt;
}

bool is_hex_byte(std::string_view word) {
  return word.size() == 2 && LineCursor::hex_digit_value(word[0]) >= 0 && LineCursor::hex_digit_value(word[1]) >= 0;
}

std::uint64_t skip_machine_code(LineCursor& at) {
  std::uint64_t bytes = 0;
  for (at.skip_blanks(); is_hex_byte(at.take_word()); at.skip_blanks()) ++bytes;
  return bytes;
}

ParseResult read_record(LineCursor& at, AccessSink& accesses) {
  if (at.peek() == '<') return ParseResult::nothing;
  if (at.take_prefix("0x")) {  // an instruction in the older form: address and machine code
    const auto address = at.parse_hex();
    const auto bytes = skip_machine_code(at);
    if (!address || bytes == 0) return ParseResult::unreadable;
    accesses.add_instruction(*address, bytes);
    return ParseResult::read;
  }
  const auto what = at.take_word();
  if (is_hex_byte(what)) return ParseResult::nothing;
  at.skip_blanks();
  const auto bytes = at.parse_decimal();
  if (!bytes || !at.take_prefix(" byte(s) @ ")) return ParseResult::unreadable;
  const auto address = at.parse_hex();
  if (!address || !(at.is_at_end() || at.is_at_blank())) return ParseResult::unreadable;
  if (what.starts_with("pref") || what == "iflush" || what == "dflush") {
    accesses.count_other();
    return ParseResult::read;
  }
  if (!AccessSink::is_valid_size(*bytes)) return ParseResult::unreadable;
  if (what == "read")
    accesses.add_load(*address, *bytes);
  else if (what == "write")
    accesses.add_store(*address, *bytes);
  else if (what == "ifetch")
    accesses.add_instruction(*address, *bytes);
  else
    return ParseResult::unreadable;
  return ParseResult::read;
}

// Returns whether the line is a heading, a total, or the second line of a long instruction.
bool is_heading_or_total(std::string_view line) {
  for (const std::string_view heading : {"Output format:", "<", "---", "===", "View tool results:", "Trace invariant"})
    if (line.starts_with(heading)) return true;
  LineCursor at(line);
  at.skip_blanks();
  if (at.parse_decimal()) {
    at.skip_blanks();
    if (at.take_prefix(": total ")) return true;
  }
  at = LineCursor(line);
  return skip_machine_code(at) > 0 && at.is_at_end();
}

ParseResult read_view(std::string_view line, AccessSink& accesses) {
  LineCursor at(line);
  const auto thread = take_thread(at);
  if (!thread) return is_heading_or_total(line) ? ParseResult::nothing : ParseResult::unreadable;
  at.skip_blanks();
  accesses.set_thread(*thread);
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

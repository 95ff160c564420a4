// The text output of DynamoRIO's view tool (drcachesim -tool view, formerly -simulator_type view), which includes
// threads. Its prefix has changed over the years, its records hardly:
//
//       47446       37770:     2765543 read         8 byte(s) @ 0x00007fdf64e2adc8 by PC 0x0000000000404a7e
//       47446       37770:     W0.T292 read         8 byte(s) @ 0x00007fdf64e2adc8 by PC 0x0000000000404a7e
//      173371: T1774669 write        8 byte(s) @ 0x00007f8881e37a70 by PC 0x0000000000402680
//   T468608   0x0000000000467c45  4c 8b 54 24 08       mov    0x08(%rsp), %r10
//   T468608     read  8 byte(s) @ 0x7fff9f5fd9b0
//
// Prefetches and flushes are counted but not simulated; headings, markers, totals and the second line of long
// instructions are skipped.
#include <algorithm>

#include "trace/format.hpp"
#include "trace/lines.hpp"

namespace nearfield::trace {
namespace {

// Consumes the prefix of a record. Returns the thread id in it; std::nullopt if the prefix has none of these forms.
std::optional<std::uint64_t> take_thread_id(LineCursor& cursor) {
  cursor.skip_blanks();
  if (!cursor.take_prefix("T")) {
    if (!cursor.parse_decimal()) return std::nullopt;
    cursor.skip_blanks();
    cursor.parse_decimal();
    if (!cursor.take_prefix(":")) return std::nullopt;
    cursor.skip_blanks();
    std::uint64_t workload = 0;
    if (cursor.take_prefix("W")) {
      const auto number = cursor.parse_decimal();
      if (!number || !cursor.take_prefix(".")) return std::nullopt;
      workload = *number;
    }
    cursor.take_prefix("T");
    const auto thread = cursor.parse_decimal();
    if (!thread || !cursor.is_at_blank()) return std::nullopt;
    return workload << 48 ^ *thread;
  }
  const auto thread = cursor.parse_decimal();
  return cursor.is_at_blank() ? thread : std::nullopt;
}

bool is_hex_byte(std::string_view word) {
  return word.size() == 2 && LineCursor::hex_digit_value(word[0]) >= 0 && LineCursor::hex_digit_value(word[1]) >= 0;
}

std::uint64_t skip_machine_code(LineCursor& cursor) {
  std::uint64_t bytes = 0;
  for (cursor.skip_blanks(); is_hex_byte(cursor.take_word()); cursor.skip_blanks()) ++bytes;
  return bytes;
}

ParseResult parse_after_thread(LineCursor& cursor, AccessSink& accesses) {
  if (cursor.peek() == '<') return ParseResult::heading;
  if (cursor.take_prefix("0x")) {  // an instruction in the older form: address and machine code
    const auto address = cursor.parse_hex();
    const auto bytes = skip_machine_code(cursor);
    if (!address || bytes == 0) return ParseResult::unreadable;
    accesses.add_instruction(*address, bytes);
    return ParseResult::access;
  }
  const auto record_type = cursor.take_word();
  if (is_hex_byte(record_type)) return ParseResult::heading;
  cursor.skip_blanks();
  const auto bytes = cursor.parse_decimal();
  if (!bytes || !cursor.take_prefix(" byte(s) @ ")) return ParseResult::unreadable;
  const auto address = cursor.parse_hex();
  if (!address || !(cursor.is_at_end() || cursor.is_at_blank())) return ParseResult::unreadable;
  if (record_type.starts_with("pref") || record_type == "iflush" || record_type == "dflush") {
    accesses.count_unsimulated_record();
    return ParseResult::access;
  }
  if (!AccessSink::is_valid_size(*bytes)) return ParseResult::unreadable;
  if (record_type == "read")
    accesses.add_load(*address, *bytes);
  else if (record_type == "write")
    accesses.add_store(*address, *bytes);
  else if (record_type == "ifetch")
    accesses.add_instruction(*address, *bytes);
  else
    return ParseResult::unreadable;
  return ParseResult::access;
}

// Returns whether the line is a heading, a total, or the second line of a long instruction.
bool is_heading_or_total(std::string_view line) {
  for (const std::string_view heading : {"Output format:", "<", "---", "===", "View tool results:", "Trace invariant"})
    if (line.starts_with(heading)) return true;
  LineCursor cursor(line);
  cursor.skip_blanks();
  if (cursor.parse_decimal()) {
    cursor.skip_blanks();
    if (cursor.take_prefix(": total ")) return true;
  }
  cursor = LineCursor(line);
  return skip_machine_code(cursor) > 0 && cursor.is_at_end();
}

ParseResult parse_view_record(std::string_view line, AccessSink& accesses) {
  LineCursor cursor(line);
  const auto thread = take_thread_id(cursor);
  if (!thread) return is_heading_or_total(line) ? ParseResult::heading : ParseResult::unreadable;
  cursor.skip_blanks();
  accesses.set_current_thread(*thread);
  return parse_after_thread(cursor, accesses);
}

}  // namespace

extern const FormatSpec view_format;
const FormatSpec view_format{
    "view", "DynamoRIO: drrun -t drcachesim -tool view (or -simulator_type view), with threads",
    "'47446 37770: 2765543 read 8 byte(s) @ 0x00007fdf64e2adc8 by PC 0x0000000000404a7e', as the "
    "view tool writes it to stderr",
    0, parse_view_record};

}  // namespace nearfield::trace

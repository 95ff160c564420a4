// The output of Valgrind's tool lackey: "I  0401ab70,3" for an instruction, " L 1fff000758,8" for a load, " S ..." for
// a store, " M ..." for a load and a store of the same bytes; addresses are hexadecimal, sizes decimal. Messages of
// Valgrind begin with ==PID==, --PID-- or **PID** and are skipped. The format does not distinguish threads.
#include "trace/format.hpp"
#include "trace/lines.hpp"

namespace nearfield::trace {
namespace {

ParseResult parse_lackey_record(std::string_view line, AccessSink& accesses) {
  if (line.starts_with("==") || line.starts_with("--") || line.starts_with("**")) return ParseResult::heading;
  LineCursor cursor(line);
  cursor.skip_blanks();
  const char label = cursor.take_char();
  if (!cursor.is_at_blank()) return ParseResult::unreadable;
  cursor.skip_blanks();
  const auto address = cursor.parse_hex();
  if (!address || cursor.take_char() != ',') return ParseResult::unreadable;
  const auto bytes = cursor.parse_decimal();
  if (!bytes || !cursor.is_at_end() || !AccessSink::is_valid_size(*bytes)) return ParseResult::unreadable;
  switch (label) {
    case 'I':
      accesses.add_instruction(*address, *bytes);
      break;
    case 'L':
      accesses.add_load(*address, *bytes);
      break;
    case 'S':
      accesses.add_store(*address, *bytes);
      break;
    case 'M':
      accesses.add_load(*address, *bytes);
      accesses.add_store(*address, *bytes);
      break;
    default:
      return ParseResult::unreadable;
  }
  return ParseResult::access;
}

}  // namespace

extern const FormatSpec lackey_format;
const FormatSpec lackey_format{"lackey", "valgrind --tool=lackey --trace-mem=yes --log-file=FILE",
                               "' L 1fff000758,8', also with S, M or I; --log-file=FILE of valgrind keeps what the "
                               "program prints out of the trace",
                               0, parse_lackey_record};

}  // namespace nearfield::trace

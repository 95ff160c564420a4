// The output of Valgrind's lackey: "I  0401ab70,3" for an instruction, " L 1fff000758,8" for a load, " S ..." for a
// store, " M ..." for a load and a store of the same bytes; addresses are hexadecimal, sizes decimal. Valgrind's own
// lines begin with ==PID==, --PID-- or **PID**. Threads are not distinguished.
#include "trace/format.hpp"
#include "trace/lines.hpp"

namespace nearfield::trace {
namespace {

Record read_lackey(std::string_view line, Accesses& accesses) {
  if (line.starts_with("==") || line.starts_with("--") || line.starts_with("**")) return Record::nothing;
  Cursor at(line);
  at.blanks();
  const char label = at.next();
  if (!at.at_blank()) return Record::unreadable;
  at.blanks();
  const auto address = at.hex();
  if (!address || at.next() != ',') return Record::unreadable;
  const auto bytes = at.decimal();
  if (!bytes || !at.done() || !Accesses::is_size(*bytes)) return Record::unreadable;
  switch (label) {
    case 'I':
      accesses.instruction(*address, *bytes);
      break;
    case 'L':
      accesses.load(*address, *bytes);
      break;
    case 'S':
      accesses.store(*address, *bytes);
      break;
    case 'M':
      accesses.load(*address, *bytes);
      accesses.store(*address, *bytes);
      break;
    default:
      return Record::unreadable;
  }
  return Record::read;
}

}  // namespace

extern const FormatSpec lackey_format;
const FormatSpec lackey_format{"lackey", "valgrind --tool=lackey --trace-mem=yes --log-file=FILE",
                               "' L 1fff000758,8', also with S, M or I; --log-file=FILE of valgrind keeps what the "
                               "program prints out of the trace",
                               0, read_lackey};

}  // namespace nearfield::trace

// A trace format is one file in formats/, which exports one FormatSpec named after it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trace/accesses.hpp"

namespace nearfield::trace {

// The result of reading one record.
enum class Record {
  read,        // accesses, instructions and the like
  nothing,     // a heading or comment
  unreadable,  // not of this format; no access was performed
};

struct FormatSpec {
  std::string name;
  std::string summary;
  std::string expected;      // for error messages: what a record looks like, and how to create such a trace
  std::size_t record_bytes;  // 0: its records are lines
  // Parses one record, without its line end, and reports its contents to `accesses`. Lines are not empty.
  Record (*read)(std::string_view record, Accesses& accesses);
};

const std::vector<const FormatSpec*>& all_formats();

// Returns the format in which most of these whole lines are readable, or the binary one if they are not text; null if
// no line is readable in any format.
const FormatSpec* recognised(std::string_view beginning);

}  // namespace nearfield::trace

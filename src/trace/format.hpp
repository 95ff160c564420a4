// A format of traces is one file in formats/, which exports one FormatSpec named after it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trace/accesses.hpp"

namespace nearfield::trace {

// The result of reading one record.
enum class Record {
  read,        // accesses, instructions and the like
  nothing,     // a heading, a remark
  unreadable,  // it is not of this format, and no access of it was made
};

struct FormatSpec {
  std::string name;
  std::string summary;
  std::string expected;      // what a record looks like, and how to get such a trace, for who has an unreadable one
  std::size_t record_bytes;  // 0: its records are lines
  // Reads one record, without the end of its line, and tells `accesses` what is in it. Lines are not empty.
  Record (*read)(std::string_view record, Accesses& accesses);
};

const std::vector<const FormatSpec*>& all_formats();

// Returns the format in which most of these whole lines can be read, or the binary one if they are no text; null if there
// is none in which any can.
const FormatSpec* recognised(std::string_view beginning);

}  // namespace nearfield::trace

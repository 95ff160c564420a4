// The interface of a trace format. Each format is one file in formats/, which exports one FormatSpec named after the
// format.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trace/accesses.hpp"

namespace nearfield::trace {

// The result of reading one record.
enum class ParseResult {
  access,      // the record holds an access, an instruction fetch or a prefetch
  heading,     // the record is a heading or a comment
  unreadable,  // the record is not of this format; no access was performed
};

struct FormatSpec {
  std::string name;
  std::string summary;
  std::string record_example;  // for error messages: an example of a record, and how to create such a trace
  std::size_t record_bytes;    // bytes of a record; 0: a record is a line of text
  // Parses one record and passes its access to `accesses`. A line comes without its line end and is not empty.
  ParseResult (*parse_record)(std::string_view record, AccessSink& accesses);
};

const std::vector<const FormatSpec*>& all_formats();

// Detects the format from the beginning of a trace, which holds whole lines. Returns the text format that can read most
// of the lines, or the binary format if the bytes are not text. Returns nullptr if no format can read any line.
const FormatSpec* recognize_format(std::string_view beginning);

}  // namespace nearfield::trace

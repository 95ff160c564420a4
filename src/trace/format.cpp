#include "trace/format.hpp"

#include <algorithm>

#include "trace/lines.hpp"

namespace nearfield::trace {
namespace {

bool is_text(std::string_view bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](unsigned char c) {
    return (c >= ' ' && c != 0x7F) || c == '\n' || c == '\t' || c == '\r';  // UTF-8 is allowed, for names
  });
}

Count count_readable_lines(const FormatSpec& format, std::string_view text) {
  AccessSink accesses;
  Count read = 0;
  while (const auto line = take_line(text))
    read += !line->empty() && format.parse_record(*line, accesses) == ParseResult::access;
  return read;
}

}  // namespace

const FormatSpec* recognize_format(std::string_view beginning) {
  const bool text = is_text(beginning);
  const FormatSpec* best = nullptr;
  Count max_read = 0;
  for (const auto* format : all_formats()) {
    if (text != (format->record_bytes == 0)) continue;
    const Count read = text ? count_readable_lines(*format, beginning) : 1;
    if (read > max_read) {
      max_read = read;
      best = format;
    }
  }
  return best;
}

}  // namespace nearfield::trace

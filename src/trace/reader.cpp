#include "trace/reader.hpp"

#include <algorithm>
#include <stdexcept>

#include "trace/lines.hpp"

namespace nearfield::trace {
namespace {

constexpr std::size_t longest_line = 1 << 16, longest_shown = 80;

// Returns a quoted, truncated copy of the record for error messages, with ? for unprintable bytes.
std::string quote_record(std::string_view record) {
  std::string text(record.substr(0, longest_shown));
  std::replace_if(text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return "'" + text + (record.size() > longest_shown ? "...'" : "'");
}

}  // namespace

void Reader::feed(std::string_view bytes) {
  if (!rest_.empty()) {  // only a record that two calls split is assembled in rest_; all others are parsed in place
    const auto end = format_.record_bytes ? format_.record_bytes - rest_.size() : bytes.find('\n') + 1;
    const auto more = end == 0 ? bytes.size() : std::min(end, bytes.size());
    rest_.append(bytes.substr(0, more));
    bytes.remove_prefix(more);
    if (complete_record_bytes(rest_) == rest_.size()) {
      parse_records(rest_);
      rest_.clear();
    }
  }
  const auto complete = complete_record_bytes(bytes);
  parse_records(bytes.substr(0, complete));
  rest_.append(bytes.substr(complete));
  if (!accesses_.is_limit_reached() && rest_.size() > longest_line) {
    ++number_;
    throw_unreadable(rest_);
  }
}

void Reader::finish() {
  if (rest_.empty() || accesses_.is_limit_reached()) return;
  if (format_.record_bytes > 0)
    throw std::invalid_argument("it ends after " + std::to_string(rest_.size()) + " of the " +
                                std::to_string(format_.record_bytes) + " bytes of record " +
                                std::to_string(number_ + 1));
  feed("\n");
}

// Returns the number of bytes at the beginning of `bytes` that make up complete records.
std::size_t Reader::complete_record_bytes(std::string_view bytes) const {
  if (format_.record_bytes > 0) return bytes.size() - bytes.size() % format_.record_bytes;
  return bytes.rfind('\n') + 1;
}

void Reader::parse_records(std::string_view records) {
  if (format_.record_bytes > 0) {
    for (; !records.empty() && !accesses_.is_limit_reached(); records.remove_prefix(format_.record_bytes))
      parse_record(records.substr(0, format_.record_bytes));
  } else {
    while (!accesses_.is_limit_reached()) {
      const auto line = take_line(records);
      if (!line) break;
      parse_record(*line);
    }
  }
}

void Reader::parse_record(std::string_view record) {
  ++number_;
  if (!record.empty() && format_.read(record, accesses_) == ParseResult::unreadable) throw_unreadable(record);
}

void Reader::throw_unreadable(std::string_view record) const {
  throw std::invalid_argument("line " + std::to_string(number_) + " is not " + format_.name + ": " +
                              quote_record(record));
}

}  // namespace nearfield::trace

#include "trace/reader.hpp"

#include <algorithm>
#include <stdexcept>

#include "trace/lines.hpp"

namespace nearfield::trace {
namespace {

constexpr std::size_t max_line_bytes = 1 << 16, max_quoted_bytes = 80;

// Returns a quoted, truncated copy of the record for error messages, with ? for unprintable bytes.
std::string quote_record(std::string_view record) {
  std::string text(record.substr(0, max_quoted_bytes));
  std::replace_if(text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return "'" + text + (record.size() > max_quoted_bytes ? "...'" : "'");
}

}  // namespace

void TraceReader::feed(std::string_view bytes) {
  // only a record that two calls split is assembled in incomplete_record_; all others are parsed in place
  if (!incomplete_record_.empty()) {
    const auto end = format_.record_bytes ? format_.record_bytes - incomplete_record_.size() : bytes.find('\n') + 1;
    const auto appended_bytes = end == 0 ? bytes.size() : std::min(end, bytes.size());
    incomplete_record_.append(bytes.substr(0, appended_bytes));
    bytes.remove_prefix(appended_bytes);
    if (complete_record_bytes(incomplete_record_) == incomplete_record_.size()) {
      parse_records(incomplete_record_);
      incomplete_record_.clear();
    }
  }
  const auto complete_bytes = complete_record_bytes(bytes);
  parse_records(bytes.substr(0, complete_bytes));
  incomplete_record_.append(bytes.substr(complete_bytes));
  if (!accesses_.is_limit_reached() && incomplete_record_.size() > max_line_bytes) {
    ++record_number_;
    throw_unreadable(incomplete_record_);
  }
}

void TraceReader::finish_trace() {
  if (incomplete_record_.empty() || accesses_.is_limit_reached()) return;
  if (format_.record_bytes > 0)
    throw std::invalid_argument("it ends after " + std::to_string(incomplete_record_.size()) + " of the " +
                                std::to_string(format_.record_bytes) + " bytes of record " +
                                std::to_string(record_number_ + 1));
  feed("\n");
}

// Returns the number of bytes at the beginning of `bytes` that make up complete records.
std::size_t TraceReader::complete_record_bytes(std::string_view bytes) const {
  if (format_.record_bytes > 0) return bytes.size() - bytes.size() % format_.record_bytes;
  return bytes.rfind('\n') + 1;
}

void TraceReader::parse_records(std::string_view records) {
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

void TraceReader::parse_record(std::string_view record) {
  ++record_number_;
  if (!record.empty() && format_.parse_record(record, accesses_) == ParseResult::unreadable) throw_unreadable(record);
}

void TraceReader::throw_unreadable(std::string_view record) const {
  throw std::invalid_argument("line " + std::to_string(record_number_) + " is not " + format_.name + ": " +
                              quote_record(record));
}

}  // namespace nearfield::trace

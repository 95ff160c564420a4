// Parses a trace that arrives in pieces of any size.
#pragma once

#include "trace/format.hpp"

namespace nearfield::trace {

class TraceReader {
 public:
  // `format` and `accesses` must outlive the reader. Several readers may pass the accesses of several traces to the
  // same `accesses`, one trace after the other.
  TraceReader(const FormatSpec& format, AccessSink& accesses) : format_(format), accesses_(accesses) {}

  // Consumes the next bytes of the trace, performs the accesses of all complete records, and stores an incomplete last
  // record for the next call. Once the limit of accesses is reached, bytes are ignored. If a record cannot be parsed,
  // throws std::invalid_argument with its number and text.
  void feed(std::string_view bytes);
  // Signals the end of the trace, and parses a last line that lacks a line end. Throws std::invalid_argument if a
  // binary record is incomplete.
  void finish_trace();

 private:
  std::size_t complete_record_bytes(std::string_view bytes) const;
  void parse_records(std::string_view records);
  void parse_record(std::string_view record);
  [[noreturn]] void throw_unreadable(std::string_view record) const;

  const FormatSpec& format_;
  AccessSink& accesses_;
  std::string incomplete_record_;
  Count record_number_ = 0;  // number of the last record read, from 1
};

}  // namespace nearfield::trace

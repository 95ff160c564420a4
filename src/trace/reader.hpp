// Reads a trace in pieces of any size.
#pragma once

#include "trace/format.hpp"

namespace nearfield::trace {

class Reader {
 public:
  // Both must outlive the reader. Several readers may fill the same accesses, one trace after the other.
  Reader(const FormatSpec& format, Accesses& accesses) : format_(format), accesses_(accesses) {}

  // Consumes the next bytes of the trace, performs the accesses of all complete records, and keeps the rest. Once the
  // limit of accesses is reached, nothing is read. Throws std::invalid_argument with the number and text of a record
  // that cannot be parsed.
  void feed(std::string_view bytes);
  // Signals the end of the trace, where the last line may lack its end.
  void finish();

 private:
  std::size_t whole(std::string_view bytes) const;
  void read(std::string_view records);
  void read_one(std::string_view record);
  [[noreturn]] void refuse(std::string_view record) const;

  const FormatSpec& format_;
  Accesses& accesses_;
  std::string rest_;
  Count number_ = 0;  // of the last record read
};

}  // namespace nearfield::trace

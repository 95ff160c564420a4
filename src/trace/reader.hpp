// Reads a trace piece by piece, however its bytes are cut.
#pragma once

#include "trace/format.hpp"

namespace nearfield::trace {

class Reader {
 public:
  // Both must outlive the reader. Several readers may fill the same accesses, one trace after the other.
  Reader(const FormatSpec& format, Accesses& accesses) : format_(format), accesses_(accesses) {}

  // Takes the next bytes of the trace, makes the accesses of all whole records, and keeps the rest for the next bytes.
  // Once the accesses have reached their limit, nothing is read. Throws std::invalid_argument that tells the number of a
  // record that cannot be read, and what it is.
  void feed(std::string_view bytes);
  // Takes the end of the trace: a last line may lack its end.
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

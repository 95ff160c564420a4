// The output of the engine: JSON Lines, which rank 0 appends to a file as soon as a result is known, so that a crash
// loses no earlier results.
#pragma once

#include <string>

#include "base/text.hpp"

namespace nearfield::probe {

class Emitter {
 public:
  /// Opens the file. With an empty path (ranks other than 0) the emitter writes nothing. Aborts the launch if the file
  /// cannot be opened.
  explicit Emitter(const std::string& path);
  ~Emitter();
  Emitter(const Emitter&) = delete;
  Emitter& operator=(const Emitter&) = delete;

  /// Writes one line. Aborts the launch if the line cannot be written completely (disk full, quota).
  void write_line(const JsonObject& object);

  /// Writes a line that names the current step before the measurement, which also shows that the launch is alive.
  void write_phase(const std::string& what) { write_line(JsonObject().add("type", "phase").add("what", what)); }

 private:
  std::string path_;
  int fd_ = -1;
};

}  // namespace nearfield::probe

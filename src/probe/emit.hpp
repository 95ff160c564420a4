// The output of the engine: JSON Lines. Rank 0 appends each result to a file as soon as it is available, so that a
// crash loses no earlier results.
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

  /// Writes a line that names the current preparatory step, which also shows that the launch is alive.
  void write_current_step(const std::string& step) { write_line(JsonObject().add("type", "phase").add("what", step)); }

 private:
  std::string path_;
  int fd_ = -1;
};

}  // namespace nearfield::probe

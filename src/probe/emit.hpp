// The engine's output: one JSON object a line, appended to a file by rank 0 as soon as it is known, so that
// what was measured before a crash is not lost.
#pragma once

#include <string>

#include "base/text.hpp"

namespace nearfield::probe {

class Emitter {
 public:
  /// Writes nothing with an empty path (ranks other than 0). Ends the launch if the file cannot be opened.
  explicit Emitter(const std::string& path);
  ~Emitter();
  Emitter(const Emitter&) = delete;
  Emitter& operator=(const Emitter&) = delete;

  /// Writes a line. Ends the launch if it cannot be written whole (disk full, quota).
  void line(const JsonObject& object);

  /// Writes what the launch is about to do before it measures. Whoever waits for it sees that it is alive.
  void phase(const std::string& what) { line(JsonObject().add("type", "phase").add("what", what)); }

 private:
  std::string path_;
  int fd_ = -1;
};

}  // namespace nearfield::probe

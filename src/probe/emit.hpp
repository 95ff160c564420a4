// The engine's output: JSON Lines, which rank 0 appends to a file as soon as results are known, so that a crash does
// not lose earlier ones.
#pragma once

#include <string>

#include "base/text.hpp"

namespace nearfield::probe {

class Emitter {
 public:
  /// Writes nothing if the path is empty (ranks other than 0). Aborts the launch if the file cannot be opened.
  explicit Emitter(const std::string& path);
  ~Emitter();
  Emitter(const Emitter&) = delete;
  Emitter& operator=(const Emitter&) = delete;

  /// Writes a line. Aborts the launch if it cannot be written completely (disk full, quota).
  void line(const JsonObject& object);

  /// Writes what the launch does before it measures, which also shows that it is alive.
  void phase(const std::string& what) { line(JsonObject().add("type", "phase").add("what", what)); }

 private:
  std::string path_;
  int fd_ = -1;
};

}  // namespace nearfield::probe

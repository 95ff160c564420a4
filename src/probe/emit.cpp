#include "probe/emit.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "probe/failure.hpp"

namespace nearfield::probe {

Emitter::Emitter(const std::string& path) : path_(path) {
  if (path.empty()) return;
  fd_ = open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  if (fd_ < 0) abort_launch("output", "cannot write " + path + ": " + std::strerror(errno));
}

Emitter::~Emitter() {
  if (fd_ >= 0) close(fd_);
}

void Emitter::write_line(const JsonObject& object) {
  if (fd_ < 0) return;
  const std::string text = object.str() + "\n";
  for (std::size_t written = 0; written < text.size();) {
    const ssize_t n = write(fd_, text.data() + written, text.size() - written);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) abort_launch("output", "cannot write " + path_ + ": " + std::strerror(errno));
    written += static_cast<std::size_t>(n);
  }
}

}  // namespace nearfield::probe

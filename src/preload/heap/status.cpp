#include "preload/heap/status.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

namespace nearfield::heap {

ProcessStatus::ProcessStatus() {
  text_[0] = '\0';
  const int file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  const ssize_t length = read(file, text_, sizeof text_ - 1);
  close(file);
  text_[length > 0 ? length : 0] = '\0';
}

long ProcessStatus::read_number_after_key(const char* key) const {
  const std::size_t length = std::strlen(key);
  for (const char* line = text_; line; line = std::strchr(line, '\n')) {
    line += *line == '\n';
    if (std::strncmp(line, key, length) == 0 && line[length] == ':') return std::strtol(line + length + 1, nullptr, 10);
  }
  return -1;
}

}  // namespace nearfield::heap

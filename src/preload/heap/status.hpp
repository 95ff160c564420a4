// Reads /proc/self/status.
#pragma once

namespace nearfield::heap {

// A snapshot of the file. Reading it allocates no memory.
class ProcessStatus {
 public:
  ProcessStatus();
  bool is_available() const { return text_[0] != '\0'; }
  // Returns the number in the line "KEY:"; -1 if there is no such line.
  long read_number_after_key(const char* key) const;

 private:
  char text_[8192];
};

}  // namespace nearfield::heap

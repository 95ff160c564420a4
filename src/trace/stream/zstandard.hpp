// The shared library of Zstandard, loaded by dlopen on first use, if the host has it. Only functions that have been
// stable since version 1.0 are used, so the headers of Zstandard are not required to build.
#pragma once

#include <vector>

namespace nearfield::stream {

class Zstandard {
 public:
  // Returns the loaded library. Throws std::runtime_error with the name of the library if it is missing.
  static const Zstandard& get();
  // Decompresses `packed` into `raw`. Returns whether the result has exactly raw.size() bytes.
  bool decompress(std::vector<unsigned char>& raw, const std::vector<unsigned char>& packed) const;

 private:
  Zstandard();
  std::size_t (*decompress_)(void*, std::size_t, const void*, std::size_t) = nullptr;
};

}  // namespace nearfield::stream

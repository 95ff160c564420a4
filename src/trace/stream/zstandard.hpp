// Zstandard's shared library, loaded on first use if the host has it. Only the part of its interface that has been
// stable since version 1.0 is used, so its headers are not required.
#pragma once

#include <vector>

namespace nearfield::stream {

class Zstandard {
 public:
  // Throws std::runtime_error, which names the library, if it is missing.
  static const Zstandard& get();
  // Decompresses into `raw`. Returns whether `packed` holds exactly as many bytes as `raw` has.
  bool decompress(std::vector<unsigned char>& raw, const std::vector<unsigned char>& packed) const;

 private:
  Zstandard();
  std::size_t (*decompress_)(void*, std::size_t, const void*, std::size_t) = nullptr;
};

}  // namespace nearfield::stream

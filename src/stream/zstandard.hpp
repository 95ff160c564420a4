// Zstandard's shared library, if this machine has it: loaded when it is needed, by the part of its interface that has
// been the same since version 1.0, so its headers need not be there.
#pragma once

#include <vector>

namespace nearfield::stream {

class Zstandard {
 public:
  // Throws std::runtime_error that names the library if it is not there.
  static const Zstandard& get();
  // Returns whether `packed` holds exactly as many bytes as `raw` has, and unpacks them.
  bool decompress(std::vector<unsigned char>& raw, const std::vector<unsigned char>& packed) const;

 private:
  Zstandard();
  std::size_t (*decompress_)(void*, std::size_t, const void*, std::size_t) = nullptr;
};

}  // namespace nearfield::stream

#include "trace/stream/zstandard.hpp"

#include <dlfcn.h>

#include <stdexcept>

namespace nearfield::stream {

Zstandard::Zstandard() {
  if (void* const library = dlopen("libzstd.so.1", RTLD_NOW | RTLD_LOCAL))
    decompress_ = reinterpret_cast<decltype(decompress_)>(dlsym(library, "ZSTD_decompress"));
  if (!decompress_) throw std::runtime_error("libzstd.so.1 is missing, with which the stream was packed; install it");
}

const Zstandard& Zstandard::get() {
  static const Zstandard library;
  return library;
}

bool Zstandard::decompress(std::vector<unsigned char>& raw, const std::vector<unsigned char>& packed) const {
  return decompress_(raw.data(), raw.size(), packed.data(), packed.size()) == raw.size();
}

}  // namespace nearfield::stream

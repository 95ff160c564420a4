#include "halo/mapping.hpp"

#include <unistd.h>

#include <cstdio>
#include <utility>

#include "base/linux.h"
#include "halo/node.hpp"

namespace nearfield::halo {

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(data, other.data);
  std::swap(mapped_bytes, other.mapped_bytes);
  std::swap(file, other.file);
  std::swap(window, other.window);
  return *this;
}

Mapping::~Mapping() {
  if (window != MPI_WIN_NULL && !mpi_has_ended()) {
    MPI_Win_unlock_all(window);
    MPI_Win_free(&window);
  }
  if (mapped_bytes && data) munmap(data, mapped_bytes);
  if (file >= 0) close(file);
}

std::string format_mebibytes(std::size_t bytes) {
  char text[40];
  std::snprintf(text, sizeof text, "%.1f MiB", static_cast<double>(bytes) / (1 << 20));
  return text;
}

}  // namespace nearfield::halo

// Shared memory that a process has mapped.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <string>
#include <utility>

namespace nearfield::halo {

/// Owns a mapping of a file, or a window whose memory is used. Freeing a window is collective over the ranks of the
/// node.
struct Mapping {
  Mapping() = default;
  Mapping(Mapping&& other) noexcept { *this = std::move(other); }
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();

  std::byte* data = nullptr;
  std::size_t mapped_bytes = 0;  ///< 0: the memory belongs to the window
  int file = -1;
  MPI_Win window = MPI_WIN_NULL;
};

/// Formats a size for messages, such as "64.0 MiB".
std::string format_mebibytes(std::size_t bytes);

}  // namespace nearfield::halo

// Converts buffers of any MPI datatype to contiguous bytes, and back.
#pragma once

#include <mpi.h>

#include <cstdint>

#include "collectives/doubling.hpp"
#include "collectives/grouped.hpp"

namespace nearfield::collectives {

// The element types on which this library performs reductions itself.
enum class ElementType : unsigned char {
  none,
  int8,
  uint8,
  int16,
  uint16,
  int32,
  uint32,
  int64,
  uint64,
  float32,
  float64
};

// A predefined MPI datatype: its size and extent in bytes, and the element type on which this library computes
// reductions (`none`: it does not).
struct PredefinedType {
  std::size_t bytes, extent_bytes;
  ElementType element_type;
  bool is_contiguous() const { return bytes == extent_bytes; }
};

// Returns the description of a predefined datatype; null if `type` is a derived datatype.
const PredefinedType* find_predefined_type(MPI_Datatype type);

// Returns the size of one element in bytes, without gaps; a negative number if the datatype is invalid.
std::int64_t type_size(MPI_Datatype type);
std::int64_t type_extent(MPI_Datatype type);

// A send buffer as contiguous bytes: the program's own buffer if its elements are contiguous, otherwise a packed copy.
// The program's buffer may be null only if it has no bytes.
class SendBuffer {
 public:
  SendBuffer(const void* buffer, std::int64_t count, MPI_Datatype type, MPI_Comm comm);
  const Bytes* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  // Makes a private copy of the data, unless data() is a packed copy already. Needed if the program's buffer will be
  // overwritten by the collective.
  void ensure_private_copy();

 private:
  Buffer copy_;
  const Bytes* data_;
  std::size_t bytes_;
};

// A receive buffer as contiguous bytes, like SendBuffer: received data are written to data(), and unpack() moves them
// to the program's buffer if data() is a temporary buffer.
class ReceiveBuffer {
 public:
  ReceiveBuffer(void* buffer, std::int64_t count, MPI_Datatype type, MPI_Comm comm);
  Bytes* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  void unpack();

 private:
  void* buffer_;
  std::int64_t count_;
  MPI_Datatype type_;
  MPI_Comm comm_;
  Buffer copy_;
  Bytes* data_;
  std::size_t bytes_;
};

}  // namespace nearfield::collectives

// Data of any MPI datatype as contiguous bytes.
#pragma once

#include <mpi.h>

#include <cstdint>

#include "collectives/doubling.hpp"
#include "collectives/grouped.hpp"

namespace nearfield::collectives {

// The arithmetic that this library does itself.
enum class Arithmetic : unsigned char {
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

// A predefined datatype.
struct NamedType {
  std::size_t bytes, extent;
  Arithmetic arithmetic;
  bool is_dense() const { return bytes == extent; }
};

// Returns null if the datatype is none of the predefined ones.
const NamedType* find_named(MPI_Datatype type);

// Returns the bytes of one element, without gaps; negative if the datatype is invalid.
std::int64_t size_of(MPI_Datatype type);
std::int64_t extent_of(MPI_Datatype type);

// A buffer that the program sends: the program's own if its data are contiguous, else a packed copy. It may lack an
// address only if it has no bytes.
class Outgoing {
 public:
  Outgoing(const void* buffer, std::int64_t count, MPI_Datatype type, MPI_Comm comm);
  const Bytes* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  // Copies the data, unless they are a copy already: the program's own will be overwritten.
  void copy();

 private:
  Buffer copy_;
  const Bytes* data_;
  std::size_t bytes_;
};

// A buffer that the program receives with, as Outgoing. unpack() completes it.
class Incoming {
 public:
  Incoming(void* buffer, std::int64_t count, MPI_Datatype type, MPI_Comm comm);
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

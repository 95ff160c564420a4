// The predefined operators of MPI on predefined datatypes.
#pragma once

#include <mpi.h>

#include "preload/collectives/datatypes.hpp"

namespace nearfield::collectives {

// Sets n elements of `out` to a + b; out may be a. Always commutative.
class Operator {
 public:
  // Returns whether this library combines elements of this type by this operator: a list of pairs that are valid in
  // MPI. Others are left to the MPI library on all ranks, which have the same operator and datatype.
  static bool find(MPI_Op op, MPI_Datatype type, Operator& found);

  void operator()(void* out, const void* a, const void* b, std::size_t n) const;
  std::size_t width() const { return width_; }  // bytes from one element to the next

 private:
  using Kernel = void (*)(void* out, const void* a, const void* b, std::size_t n);
  Kernel kernel_ = nullptr;  // null: the MPI library does it
  std::size_t width_ = 0;
  MPI_Op op_;
  MPI_Datatype type_;
};

}  // namespace nearfield::collectives

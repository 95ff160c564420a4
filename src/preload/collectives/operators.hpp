// The predefined reduction operators of MPI on predefined datatypes.
#pragma once

#include <mpi.h>

#include "preload/collectives/datatypes.hpp"

namespace nearfield::collectives {

// A commutative reduction operator on one datatype. A call sets n elements of `out` to a + b; `out` may be `a`.
class Operator {
 public:
  // Sets `result` to the operator `op` on elements of datatype `type`. Returns false if the pair of operator and
  // datatype is not in this library's list of valid pairs. All ranks have the same pair, so then all ranks leave the
  // reduction to the MPI library.
  static bool find_operator(MPI_Op op, MPI_Datatype type, Operator& result);

  void operator()(void* out, const void* a, const void* b, std::size_t n) const;
  std::size_t element_extent_bytes() const { return element_extent_bytes_; }  // extent of an element in bytes

 private:
  using CombineFunction = void (*)(void* out, const void* a, const void* b, std::size_t n);
  CombineFunction combine_ = nullptr;  // null: MPI_Reduce_local combines the elements
  std::size_t element_extent_bytes_ = 0;
  MPI_Op op_;
  MPI_Datatype type_;
};

}  // namespace nearfield::collectives

// The predefined reduction operators of MPI on predefined datatypes.
#pragma once

#include <mpi.h>

#include "preload/collectives/datatypes.hpp"

namespace nearfield::collectives {

// A commutative reduction operator on one datatype. A call sets n elements of `out` to a + b; `out` may be `a`.
class Operator {
 public:
  // Sets `found` to the operator `op` on elements of datatype `type`. Returns false if this pair is not in this
  // library's list of pairs that are valid in MPI; then the MPI library performs the reduction on all ranks, which have
  // the same operator and datatype.
  static bool find(MPI_Op op, MPI_Datatype type, Operator& found);

  void operator()(void* out, const void* a, const void* b, std::size_t n) const;
  std::size_t width() const { return width_; }  // extent of an element in bytes

 private:
  using Kernel = void (*)(void* out, const void* a, const void* b, std::size_t n);
  Kernel kernel_ = nullptr;  // null: MPI_Reduce_local combines the elements
  std::size_t width_ = 0;
  MPI_Op op_;
  MPI_Datatype type_;
};

}  // namespace nearfield::collectives

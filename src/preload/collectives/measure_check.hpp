// Checks the results of the MPI's own algorithms before `nearfield tune --collectives --native` measures the
// algorithms.
//
// Each rank computes the result that it must receive. The checks cover the measured length and half of it, the first
// and the last root, and MPI_IN_PLACE. With `checks_any_call`, they also cover what some MPIs exclude from a selection:
// operators that do not commute, and MPI_Alltoall with MPI_IN_PLACE. They do not cover derived datatypes and
// intercommunicators.
#pragma once

#include <string>

#include "measure_operations.hpp"

namespace nearfield::collectives {

// Runs the operation on `comm` and compares the results on this rank with the expected results. Returns a description
// of the first problem; an empty string if there is none. All ranks of the communicator must call this function. If an
// algorithm fails on some ranks only, the other ranks may hang.
std::string find_wrong_result(const MeasuredOperation& operation, MPI_Comm comm, std::size_t bytes,
                              bool checks_any_call);

}  // namespace nearfield::collectives

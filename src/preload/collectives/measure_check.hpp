// Checks the results of the MPI's own algorithms, before `nearfield tune --collectives --native` measures them.
//
// Every rank computes what it must receive. Checked are the measured length and half of it, the first and the last root, and
// MPI_IN_PLACE. With `any_call`, also what some MPIs exclude from a selection: an operator that does not commute, and
// all-to-alls in place. Not checked: derived datatypes and intercommunicators.
#pragma once

#include <string>

#include "measure_operations.hpp"

namespace nearfield::collectives {

// Returns what is wrong on this rank; empty if all is right. All ranks of the communicator call it. If an algorithm
// refuses its arguments on some ranks only, the others may wait for ever.
std::string find_problem(const Operation& operation, MPI_Comm comm, std::size_t bytes, bool any_call);

}  // namespace nearfield::collectives

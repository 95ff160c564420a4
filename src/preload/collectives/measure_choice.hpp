// Selects the algorithm of the collectives that the program nearfield-collectives measures: an algorithm of the
// preloaded library, or one of the MPI's own algorithms, which the MPI's control variables (MPI_T) select.
#pragma once

#include <mpi.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace nearfield::collectives {

// Prints the integer control variables whose names begin with `prefix`, as JSON lines: {"variable": N, "description":
// D, "items": {NAME: VALUE, ...}}. The MPI reports `items` for enumerations; MPICH lists them in the description only.
void print_control_variables(const std::string& prefix);

// All ranks must select the same algorithms in the same order, outside of timed parts.
class AlgorithmSelector {
 public:
  virtual ~AlgorithmSelector() = default;
  // Selects `algorithm` for the next calls of `operation`. Returns false if there is no algorithm of this name.
  virtual bool select_algorithm(const std::string& operation, const std::string& algorithm) = 0;
  // Restores the MPI's default selection, for collectives on other communicators. To be called before the next
  // select_algorithm().
  virtual void restore_default() {}
  // Returns the communicator on which the selected algorithm is used.
  virtual MPI_Comm comm() const = 0;
};

// Returns a selector of the algorithms of libnearfield_collectives.so; nullptr if this library is not preloaded.
std::unique_ptr<AlgorithmSelector> make_preloaded_selector();

// Returns a selector of the MPI's own algorithms. The algorithm "NAME@VARIABLE=VALUE&VARIABLE=VALUE" sets these control
// variables; a NAME alone sets none. Some MPIs read the variables in each call (MPICH), others when a communicator is
// created (Open MPI): for the latter, `uses_one_comm_per_algorithm` gives each algorithm a communicator that was
// created with the algorithm's variables set. These communicators return errors instead of aborting.
std::unique_ptr<AlgorithmSelector> make_native_selector(bool uses_one_comm_per_algorithm);

}  // namespace nearfield::collectives

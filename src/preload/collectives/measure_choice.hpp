// Who does the collectives that nearfield-collectives measures: an algorithm of the preloaded library, or one of the
// MPI's own, which its control variables (MPI_T) select.
#pragma once

#include <mpi.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace nearfield::collectives {

// Prints the integer control variables whose names have that beginning, as JSON lines: {"variable": N, "description": D,
// "items": {NAME: VALUE, ...}}. The MPI gives `items` for enumerations; MPICH lists them in the description only.
void print_variables(const std::string& prefix);

// All ranks choose the same algorithms in the same order, outside of timed parts.
class Choice {
 public:
  virtual ~Choice() = default;
  // Makes an algorithm current. Returns false if there is none of that name.
  virtual bool choose(const std::string& operation, const std::string& algorithm) = 0;
  // Lets the MPI choose again, for collectives on other communicators. `choose` follows.
  virtual void release() {}
  // Returns the communicator on which the current algorithm acts.
  virtual MPI_Comm comm() const = 0;
};

// The algorithms of libnearfield_collectives.so. Returns nullptr if it is not preloaded.
std::unique_ptr<Choice> make_preloaded_choice();

// The MPI's own algorithms. "NAME@VARIABLE=VALUE&VARIABLE=VALUE" sets these variables; a name alone sets none. An MPI reads
// them in each call (MPICH), or when a communicator is made (Open MPI): then, with `by_communicator`, each algorithm has a
// communicator that was made with its variables. Errors of these communicators are returned, not fatal.
std::unique_ptr<Choice> make_native_choice(bool by_communicator);

}  // namespace nearfield::collectives

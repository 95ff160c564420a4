// Stops the engine: a Failure ends the launch with a reason, Unavailable skips a scenario or a case.
// A Failure unwinds, and unwinding frees windows and communicators, which is collective: throw it only where all ranks
// do, or before there are any. If one rank alone fails, it must abort_launch().
#pragma once

#include <stdexcept>
#include <string>

namespace nearfield::probe {

/// Ends the launch. `kind` is for the program that reads the output, what() for a person.
struct Failure : std::runtime_error {
  Failure(std::string kind_, const std::string& message) : std::runtime_error(message), kind(std::move(kind_)) {}
  std::string kind;  ///< "plan", "binding", "sanity", "output" or "mpi"
};

/// Says why on stderr and ends all ranks at once; between MPI_Init and MPI_Finalize.
[[noreturn]] void abort_launch(const std::string& kind, const std::string& message);

/// This machine or this MPI cannot do it; the record is null with this reason.
struct Unavailable : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace nearfield::probe

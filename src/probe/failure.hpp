// Errors of the engine: a Failure ends the launch with a reason; Unavailable skips a scenario or a case. A Failure
// unwinds the stack, which frees windows and communicators collectively. So it must be thrown on all ranks, or before
// windows and communicators exist. If only some ranks fail, they must call abort_launch().
#pragma once

#include <stdexcept>
#include <string>

namespace nearfield::probe {

/// Ends the launch. `kind` is for the program that reads the output, what() is for people.
struct Failure : std::runtime_error {
  Failure(std::string kind_, const std::string& message) : std::runtime_error(message), kind(std::move(kind_)) {}
  std::string kind;  ///< "plan", "binding" or "sanity"
};

/// Prints the reason on stderr and aborts all ranks; valid between MPI_Init and MPI_Finalize. `kind` is that of a
/// Failure, "output" if the output cannot be written, or "engine" for any other exception.
[[noreturn]] void abort_launch(const std::string& kind, const std::string& message);

/// This machine or MPI does not support a scenario or a case; the record has a null value and this reason.
struct Unavailable : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace nearfield::probe

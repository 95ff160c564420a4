// Errors of the engine. A Failure ends the launch; Unavailable skips a scenario or a case. A Failure unwinds the stack,
// which frees windows and communicators collectively, so it must be thrown on all ranks, or before windows and
// communicators exist. If only some ranks fail, they must call abort_launch() instead.
#pragma once

#include <stdexcept>
#include <string>

namespace nearfield::probe {

/// Ends the launch. `failure_kind` is machine-readable, what() is human-readable.
struct Failure : std::runtime_error {
  Failure(std::string kind_, const std::string& message)
      : std::runtime_error(message), failure_kind(std::move(kind_)) {}
  std::string failure_kind;  ///< "plan", "binding" or "sanity"
};

/// Prints the reason on stderr and aborts all ranks; valid between MPI_Init and MPI_Finalize. `failure_kind` is that of
/// a Failure, "output" if the output cannot be written, or "engine" for any other exception.
[[noreturn]] void abort_launch(const std::string& failure_kind, const std::string& message);

/// This machine or MPI does not support a scenario or a case; the record has a null value and this reason.
struct Unavailable : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace nearfield::probe

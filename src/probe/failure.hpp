// How the engine stops: a Failure ends the launch with a reason, Unavailable skips a scenario or a case.
#pragma once

#include <stdexcept>
#include <string>

namespace nearfield::probe {

/// Ends the launch. `kind` is for the program that reads the output, what() for a person.
struct Failure : std::runtime_error {
  Failure(std::string kind_, const std::string& message) : std::runtime_error(message), kind(std::move(kind_)) {}
  std::string kind;  ///< "plan", "binding", "sanity", "output" or "mpi"
};

/// This machine or this MPI cannot do it; the record is null with this reason.
struct Unavailable : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace nearfield::probe

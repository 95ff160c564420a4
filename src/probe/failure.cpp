#include "probe/failure.hpp"

#include <mpi.h>

#include <cstdio>
#include <cstdlib>

namespace nearfield::probe {

void abort_launch(const std::string& failure_kind, const std::string& message) {
  std::fprintf(stderr, "nearfield-probe: %s: %s\n", failure_kind.c_str(), message.c_str());
  MPI_Abort(MPI_COMM_WORLD, 5);
  std::abort();
}

}  // namespace nearfield::probe

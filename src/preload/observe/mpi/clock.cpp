// MPI_Wtime. If the user requests simulated time (for programs that stop after a given time or measure themselves),
// each call queries the simulation and returns simulated seconds.
#include "preload/observe/mpi/live_session.hpp"
#include "preload/observe/mpi/wrapper.hpp"

using namespace nearfield::observe;

namespace {

double simulated_or_real_seconds(const void* site) {
  static FunctionName name{"MPI_Wtime"};
  if (!detail::uses_simulated_time) return PMPI(MPI_Wtime)();
  const Call call(name, site);
  if (!call.is_recorded()) return PMPI(MPI_Wtime)();
  return static_cast<double>(
             live_session().query_simulator({stream::QueryKind::simulated_time, {}, false, 0, 0, 0}).at(0)) /
         1e12;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) double MPI_Wtime() {
  return simulated_or_real_seconds(__builtin_return_address(0));
}
extern "C" __attribute__((visibility("default"), alias("MPI_Wtime"))) decltype(MPI_Wtime) PMPI_Wtime;
// For mpif.h and `use mpi`: here the Fortran binding does not call the C function.
extern "C" __attribute__((visibility("default"))) double mpi_wtime_() {
  return simulated_or_real_seconds(__builtin_return_address(0));
}

// Barrier: dissemination (D. Hensgen, R. Finkel, U. Manber, 1988), messages without data over growing distances.
#include "sim/mpi/collective.hpp"

namespace nearfield::sim {
namespace {

CollectiveBufferSizes buffer_sizes(int, int, const CollectiveCall&) { return {}; }

Task<> run_barrier(Communicator& comm, CollectiveCall) {
  const int ranks = comm.size(), me = comm.rank();
  for (int distance = 1; distance < ranks; distance *= 2)
    co_await comm.sendrecv((me + distance) % ranks, Buffer(), (me - distance + ranks) % ranks, Buffer());
}

}  // namespace

extern const CollectiveSpec barrier_collective;
const CollectiveSpec barrier_collective{
    "barrier", "no rank continues before every rank has entered", "nothing", false, buffer_sizes, run_barrier};

}  // namespace nearfield::sim

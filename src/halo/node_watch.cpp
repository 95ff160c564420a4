#include "halo/node_watch.hpp"

#include "base/job_watch.hpp"

namespace nearfield::halo {
namespace {

int stop_watch(MPI_Comm, int, void*, void*) {
  stop_job_watch();
  return MPI_SUCCESS;
}

}  // namespace

void watch_nodes_of_grid(const Node& node) {
  const JobRanks ranks{
      node.rank, node.size,
      [&](const void* own, void* all, std::size_t bytes) {
        const int count = static_cast<int>(bytes);
        MPI_Allgather(own, count, MPI_BYTE, all, count, MPI_BYTE, node.comm);
      },
      [&](void* data, std::size_t bytes) { MPI_Bcast(data, static_cast<int>(bytes), MPI_BYTE, 0, node.comm); }};
  const bool was_watched = watched_wait_mark.load() != nullptr;
  start_job_watch(ranks, "a halo exchange");
  if (was_watched || !watched_wait_mark.load()) return;
  int key = MPI_KEYVAL_INVALID;
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, stop_watch, &key, nullptr);
  MPI_Comm_set_attr(MPI_COMM_SELF, key, nullptr);  // MPI_Finalize first deletes the attributes of MPI_COMM_SELF
  MPI_Comm_free_keyval(&key);
}

}  // namespace nearfield::halo

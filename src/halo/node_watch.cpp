#include "halo/node_watch.hpp"

#include <memory>
#include <string>

#include "base/node_watch.hpp"

namespace nearfield::halo {
namespace {

constexpr double watch_patience_s = 2;

NodeWatch* process_watch = nullptr;  // owned by an attribute of MPI_COMM_SELF, which MPI_Finalize deletes first
bool is_process_watched = false;     // some rank of an earlier grid of this process watches its nodes

int end_watch(MPI_Comm, int, void* watch, void*) {
  process_watch = nullptr;
  delete static_cast<NodeWatch*>(watch);
  return MPI_SUCCESS;
}

void end_program(const std::string& text) {
  if (!mpi_has_ended()) end_job(text + ", and no halo exchange completes: the program is ended");
}

}  // namespace

void watch_nodes_of(const Node& node) {
  auto watch = watch_nodes(
      node.rank, node.size, is_process_watched,
      [&](const void* own, void* all, std::size_t bytes) {
        MPI_Allgather(own, static_cast<int>(bytes), MPI_BYTE, all, static_cast<int>(bytes), MPI_BYTE, node.comm);
      },
      [&](void* data, std::size_t bytes) { MPI_Bcast(data, static_cast<int>(bytes), MPI_BYTE, 0, node.comm); },
      end_program, watch_patience_s);
  is_process_watched = true;
  if (!watch) return;
  int key = MPI_KEYVAL_INVALID;
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, end_watch, &key, nullptr);
  process_watch = watch.release();
  MPI_Comm_set_attr(MPI_COMM_SELF, key, process_watch);
  MPI_Comm_free_keyval(&key);
}

void note_exchange() {
  if (process_watch) process_watch->note_progress();
}

}  // namespace nearfield::halo

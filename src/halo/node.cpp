#include "halo/node.hpp"

#include <unistd.h>

#include <climits>

namespace nearfield::halo {

Node::Node(MPI_Comm parent_comm, bool shares_memory) {
  MPI_Comm_dup(parent_comm, &comm);
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node_comm);
  int lowest = rank;
  MPI_Bcast(&lowest, 1, MPI_INT, 0, node_comm);
  node_by_rank.resize(static_cast<std::size_t>(size));
  MPI_Allgather(&lowest, 1, MPI_INT, node_by_rank.data(), 1, MPI_INT, comm);
  if (!shares_memory) {
    MPI_Comm_free(&node_comm);
    MPI_Comm_dup(MPI_COMM_SELF, &node_comm);
  }
  MPI_Comm_rank(node_comm, &local_rank);
  MPI_Comm_size(node_comm, &local_size);
  rank_by_local_rank.resize(static_cast<std::size_t>(local_size));
  MPI_Allgather(&rank, 1, MPI_INT, rank_by_local_rank.data(), 1, MPI_INT, node_comm);
  local_rank_by_rank.assign(static_cast<std::size_t>(size), -1);
  for (int i = 0; i < local_size; ++i)
    local_rank_by_rank[static_cast<std::size_t>(rank_by_local_rank[static_cast<std::size_t>(i)])] = i;
  const long process = getpid();
  process_id_by_local_rank.resize(static_cast<std::size_t>(local_size));
  MPI_Allgather(&process, 1, MPI_LONG, process_id_by_local_rank.data(), 1, MPI_LONG, node_comm);
}

Node::~Node() {
  if (mpi_has_ended()) return;
  if (node_comm != MPI_COMM_NULL) MPI_Comm_free(&node_comm);
  if (comm != MPI_COMM_NULL) MPI_Comm_free(&comm);
}

void throw_collectively(MPI_Comm comm, const std::string& problem, ErrorCode code) {
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  int first = problem.empty() ? INT_MAX : rank;
  MPI_Allreduce(MPI_IN_PLACE, &first, 1, MPI_INT, MPI_MIN, comm);
  if (first == INT_MAX) return;
  char text[512] = {};
  if (rank == first) problem.copy(text, sizeof text - 1);
  MPI_Bcast(text, sizeof text, MPI_CHAR, first, comm);
  auto number = static_cast<int>(code);
  MPI_Bcast(&number, 1, MPI_INT, first, comm);
  throw Error(static_cast<ErrorCode>(number), text);
}

}  // namespace nearfield::halo

#include "halo/node.hpp"

#include <unistd.h>

#include <climits>

namespace nearfield::halo {

Node::Node(MPI_Comm given, bool shared) {
  MPI_Comm_dup(given, &comm);
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &local);
  int lowest = rank;
  MPI_Bcast(&lowest, 1, MPI_INT, 0, local);
  node_of.resize(static_cast<std::size_t>(size));
  MPI_Allgather(&lowest, 1, MPI_INT, node_of.data(), 1, MPI_INT, comm);
  if (!shared) {
    MPI_Comm_free(&local);
    MPI_Comm_dup(MPI_COMM_SELF, &local);
  }
  MPI_Comm_rank(local, &local_rank);
  MPI_Comm_size(local, &local_size);
  rank_of.resize(static_cast<std::size_t>(local_size));
  MPI_Allgather(&rank, 1, MPI_INT, rank_of.data(), 1, MPI_INT, local);
  local_of.assign(static_cast<std::size_t>(size), -1);
  for (int i = 0; i < local_size; ++i) local_of[static_cast<std::size_t>(rank_of[static_cast<std::size_t>(i)])] = i;
  const long process = getpid();
  process_of.resize(static_cast<std::size_t>(local_size));
  MPI_Allgather(&process, 1, MPI_LONG, process_of.data(), 1, MPI_LONG, local);
}

Node::~Node() {
  if (mpi_has_ended()) return;
  if (local != MPI_COMM_NULL) MPI_Comm_free(&local);
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

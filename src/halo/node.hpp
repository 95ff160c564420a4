// The ranks of a communicator that are on the same node, and errors on which all ranks agree.
#pragma once

#include <mpi.h>

#include <string>
#include <vector>

#include "halo/error.hpp"

namespace nearfield::halo {

/// Returns whether MPI_Finalize has been called, after which no MPI object can be freed.
inline bool mpi_has_ended() {
  int is_finalized = 0;
  MPI_Finalized(&is_finalized);
  return is_finalized;
}

/// Owns two communicators: a duplicate of the parent communicator, and its part on this node. Must be destroyed on all
/// ranks before MPI_Finalize; after MPI_Finalize, the communicators are not freed.
class Node {
 public:
  /// If `shares_memory` is false, every rank is alone in node_comm, but node_by_rank still identifies the nodes.
  Node(MPI_Comm comm, bool shares_memory);
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  MPI_Comm comm = MPI_COMM_NULL;       ///< all ranks
  MPI_Comm node_comm = MPI_COMM_NULL;  ///< the ranks of this node
  int rank = 0, size = 0;
  int local_rank = 0, local_size = 0;
  std::vector<int> node_by_rank;               ///< rank -> number of its node, which is the lowest rank on that node
  std::vector<int> local_rank_by_rank;         ///< rank -> local rank, -1 on other nodes
  std::vector<int> rank_by_local_rank;         ///< local rank -> rank
  std::vector<long> process_id_by_local_rank;  ///< local rank -> process id

  /// Returns the local rank of a rank, which must be on this node.
  std::size_t local_rank_of(int rank) const {
    return static_cast<std::size_t>(local_rank_by_rank[static_cast<std::size_t>(rank)]);
  }
};

/// If `problem` is not empty on any rank, throws on all ranks the Error of the lowest such rank. Collective over comm.
void throw_collectively(MPI_Comm comm, const std::string& problem, ErrorCode code);

}  // namespace nearfield::halo

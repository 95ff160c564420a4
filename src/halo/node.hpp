// The ranks of a communicator that share memory, and their agreement on errors.
#pragma once

#include <mpi.h>

#include <string>
#include <vector>

#include "halo/error.hpp"

namespace nearfield::halo {

/// Returns whether MPI_Finalize has been called, after which no MPI object can be freed.
inline bool mpi_has_ended() {
  int ended = 0;
  MPI_Finalized(&ended);
  return ended;
}

/// Owns two communicators: a copy of the caller's, and its part on this node. To be freed before MPI_Finalize, on all
/// ranks; after MPI_Finalize nothing is freed.
class Node {
 public:
  /// Without `shared` every rank is alone in `local`, but node_of still identifies the nodes.
  Node(MPI_Comm comm, bool shared);
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  MPI_Comm comm = MPI_COMM_NULL;   ///< all ranks
  MPI_Comm local = MPI_COMM_NULL;  ///< the ranks of this node
  int rank = 0, size = 0;
  int local_rank = 0, local_size = 0;
  std::vector<int> node_of;      ///< rank -> number of its node: the lowest rank there
  std::vector<int> local_of;     ///< rank -> local rank, -1 on other nodes
  std::vector<int> rank_of;      ///< local rank -> rank
  std::vector<long> process_of;  ///< local rank -> process id

  /// Returns the local rank of a rank on this node.
  std::size_t index_here(int rank) const { return static_cast<std::size_t>(local_of[static_cast<std::size_t>(rank)]); }
};

/// Throws on all ranks the error of the lowest rank that has one. Collective over comm.
void agree(MPI_Comm comm, const std::string& problem, Code code);

}  // namespace nearfield::halo

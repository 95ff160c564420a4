// The ranks of a communicator that share memory, and what they agree on.
#pragma once

#include <mpi.h>

#include <string>
#include <vector>

#include "halo/error.hpp"

namespace nearfield::halo {

/// Returns whether MPI_Finalize has been called: nothing of MPI's can be freed any more.
inline bool mpi_has_ended() {
  int ended = 0;
  MPI_Finalized(&ended);
  return ended;
}

/// Owns two communicators: a copy of the caller's, and the part of it on this node. Free before MPI_Finalize, on all
/// ranks; if MPI has ended before, nothing is freed.
class Node {
 public:
  /// Not `shared`: every rank is alone in `local`, though node_of says how they lie.
  Node(MPI_Comm comm, bool shared);
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  MPI_Comm comm = MPI_COMM_NULL;   ///< all ranks
  MPI_Comm local = MPI_COMM_NULL;  ///< those of this node
  int rank = 0, size = 0;
  int local_rank = 0, local_size = 0;
  std::vector<int> node_of;      ///< rank -> number of its node: the lowest rank there
  std::vector<int> local_of;     ///< rank -> local rank, -1 on other nodes
  std::vector<int> rank_of;      ///< local rank -> rank
  std::vector<long> process_of;  ///< local rank -> process id

  /// The local rank of one on this node.
  std::size_t index_here(int rank) const { return static_cast<std::size_t>(local_of[static_cast<std::size_t>(rank)]); }
};

/// Collective over comm: throws on all ranks what the lowest one has to say that has a problem.
void agree(MPI_Comm comm, const std::string& problem, Code code);

}  // namespace nearfield::halo

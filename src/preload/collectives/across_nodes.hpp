// Collectives of communicators that span nodes, on contiguous data. Each returns whether it has been done; if not, the
// MPI library must do it. This depends only on what is equal on all ranks.
#pragma once

#include "preload/collectives/node_comm.hpp"
#include "preload/collectives/operators.hpp"

namespace nearfield::collectives::across_nodes {

bool barrier(NodeComm& node);

// `data` has `bytes` on all ranks.
bool bcast(NodeComm& node, Bytes* data, std::size_t bytes, int root);

// Reductions of `all` by the operator and datatype; `send` may be `receive`.
bool reduce(NodeComm& node, const Bytes* send, Bytes* receive, const Reduction<Operator>& all, MPI_Datatype type,
            MPI_Op op, int root);
bool allreduce(NodeComm& node, const Bytes* send, Bytes* receive, const Reduction<Operator>& all, MPI_Datatype type,
               MPI_Op op);

// `bytes` are those of a block. `send` may lie at its place in `receive`, or be `receive`.
bool allgather(NodeComm& node, const Bytes* send, Bytes* receive, std::size_t bytes);
bool alltoall(NodeComm& node, const Bytes* send, Bytes* receive, std::size_t bytes);

}  // namespace nearfield::collectives::across_nodes

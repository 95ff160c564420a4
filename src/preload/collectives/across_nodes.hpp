// Collectives of communicators that span nodes, on contiguous data. Each function returns whether it has performed the
// collective; if not, the MPI library must perform it. The return value depends only on arguments that are equal on all
// ranks.
#pragma once

#include "preload/collectives/node_comm.hpp"
#include "preload/collectives/operators.hpp"

namespace nearfield::collectives::across_nodes {

bool barrier(NodeComm& node);

// `bytes` must be equal on all ranks.
bool bcast(NodeComm& node, Bytes* data, std::size_t bytes, int root);

// Reductions of the vectors described by `reduction`, by the operator `op` on the datatype `type`; `send` may equal
// `receive`.
bool reduce(NodeComm& node, const Bytes* send, Bytes* receive, const Reduction<Operator>& reduction, MPI_Datatype type,
            MPI_Op op, int root);
bool allreduce(NodeComm& node, const Bytes* send, Bytes* receive, const Reduction<Operator>& reduction,
               MPI_Datatype type, MPI_Op op);

// `bytes` is the length of one block. `send` may be this rank's block in `receive`, or equal `receive`.
bool allgather(NodeComm& node, const Bytes* send, Bytes* receive, std::size_t bytes);
bool alltoall(NodeComm& node, const Bytes* send, Bytes* receive, std::size_t bytes);

}  // namespace nearfield::collectives::across_nodes

// The communication between nodes: the MPI library's collectives on a communicator that has one rank of each node, in
// which the number of a rank is the number of its node. Lengths and counts must fit into an int. Errors abort the job,
// because the other ranks of the nodes rely on the data.
#pragma once

#include <mpi.h>

#include <cstring>

#include "collectives/algorithms.hpp"
#include "preload/collectives/datatypes.hpp"
#include "preload/mpi/handles.hpp"

namespace nearfield::collectives {

struct Lane {
  MPI_Comm comm;
  MPI_Datatype type = MPI_BYTE;  // element datatype of reductions
  MPI_Op op = MPI_OP_NULL;

  void barrier() const { PMPI(MPI_Barrier)(comm); }
  void bcast(Bytes* data, std::size_t bytes, int root) const {
    PMPI(MPI_Bcast)(data, static_cast<int>(bytes), MPI_BYTE, root, comm);
  }
  void allreduce(Bytes* data, std::size_t count) const {
    PMPI(MPI_Allreduce)(MPI_IN_PLACE, data, static_cast<int>(count), type, op, comm);
  }
  // The result replaces `data` on the root. The root sends from a copy, because MPICH 4.0.2 crashes in an MPI_Reduce
  // with MPI_IN_PLACE if the root is not rank 0.
  void reduce(Bytes* data, std::size_t count, int root) const {
    int rank = 0;
    PMPI(MPI_Comm_rank)(comm, &rank);
    Buffer copy;
    if (rank == root) {
      const std::size_t bytes = count * static_cast<std::size_t>(type_extent(type));
      copy = allocate_buffer(bytes);
      std::memcpy(copy.get(), data, bytes);
    }
    PMPI(MPI_Reduce)(copy ? copy.get() : data, data, static_cast<int>(count), type, op, root, comm);
  }
  void allgather(const Bytes* send, Bytes* receive, std::size_t bytes) const {
    const int count = static_cast<int>(bytes);
    PMPI(MPI_Allgather)(send, count, MPI_BYTE, receive, count, MPI_BYTE, comm);
  }
  void alltoall(const Bytes* send, Bytes* receive, std::size_t bytes) const {
    const int count = static_cast<int>(bytes);
    PMPI(MPI_Alltoall)(send, count, MPI_BYTE, receive, count, MPI_BYTE, comm);
  }
};

}  // namespace nearfield::collectives

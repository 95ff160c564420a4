// Checks memory at each collective, where both versions of the program must have the same state, but not at a barrier,
// across which a rewrite may move loops.
#include "verify.h"

#define NF_COLLECTIVE(name, parameters, arguments) \
  int MPI_##name parameters {                      \
    nf_check_memory("MPI_" #name);                 \
    return PMPI_##name arguments;                  \
  }

int MPI_Barrier(MPI_Comm comm) {
  MPI_Request request;
  int result = PMPI_Ibarrier(comm, &request);
  return result == MPI_SUCCESS ? nf_wait(&request, MPI_STATUS_IGNORE) : result;
}

NF_COLLECTIVE(Bcast, (void* data, int count, MPI_Datatype type, int root, MPI_Comm comm),
              (data, count, type, root, comm))
NF_COLLECTIVE(Reduce, (const void* from, void* to, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm),
              (from, to, count, type, op, root, comm))
NF_COLLECTIVE(Allreduce, (const void* from, void* to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm),
              (from, to, count, type, op, comm))
NF_COLLECTIVE(Gather,
              (const void* from, int count, MPI_Datatype type, void* to, int receive_count, MPI_Datatype receive_type,
               int root, MPI_Comm comm),
              (from, count, type, to, receive_count, receive_type, root, comm))
NF_COLLECTIVE(Gatherv,
              (const void* from, int count, MPI_Datatype type, void* to, const int* receive_count,
               const int* displacements, MPI_Datatype receive_type, int root, MPI_Comm comm),
              (from, count, type, to, receive_count, displacements, receive_type, root, comm))
NF_COLLECTIVE(Allgather,
              (const void* from, int count, MPI_Datatype type, void* to, int receive_count, MPI_Datatype receive_type,
               MPI_Comm comm),
              (from, count, type, to, receive_count, receive_type, comm))
NF_COLLECTIVE(Scatter,
              (const void* from, int count, MPI_Datatype type, void* to, int receive_count, MPI_Datatype receive_type,
               int root, MPI_Comm comm),
              (from, count, type, to, receive_count, receive_type, root, comm))
NF_COLLECTIVE(Alltoall,
              (const void* from, int count, MPI_Datatype type, void* to, int receive_count, MPI_Datatype receive_type,
               MPI_Comm comm),
              (from, count, type, to, receive_count, receive_type, comm))

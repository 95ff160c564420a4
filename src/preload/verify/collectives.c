// Checks memory at each collective, because both versions of the program must then have the same state; but not at a
// barrier, across which a rewrite may move loops.
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

NF_COLLECTIVE(Bcast, (void* data, int n, MPI_Datatype type, int root, MPI_Comm comm), (data, n, type, root, comm))
NF_COLLECTIVE(Reduce, (const void* from, void* to, int n, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm),
              (from, to, n, type, op, root, comm))
NF_COLLECTIVE(Allreduce, (const void* from, void* to, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm),
              (from, to, n, type, op, comm))
NF_COLLECTIVE(Gather,
              (const void* from, int n, MPI_Datatype type, void* to, int m, MPI_Datatype other, int root,
               MPI_Comm comm),
              (from, n, type, to, m, other, root, comm))
NF_COLLECTIVE(Gatherv,
              (const void* from, int n, MPI_Datatype type, void* to, const int* m, const int* at, MPI_Datatype other,
               int root, MPI_Comm comm),
              (from, n, type, to, m, at, other, root, comm))
NF_COLLECTIVE(Allgather,
              (const void* from, int n, MPI_Datatype type, void* to, int m, MPI_Datatype other, MPI_Comm comm),
              (from, n, type, to, m, other, comm))
NF_COLLECTIVE(Scatter,
              (const void* from, int n, MPI_Datatype type, void* to, int m, MPI_Datatype other, int root,
               MPI_Comm comm),
              (from, n, type, to, m, other, root, comm))
NF_COLLECTIVE(Alltoall,
              (const void* from, int n, MPI_Datatype type, void* to, int m, MPI_Datatype other, MPI_Comm comm),
              (from, n, type, to, m, other, comm))

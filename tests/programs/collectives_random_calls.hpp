// Makes the collective call that `call` describes. Each function returns the error code of MPI.
#pragma once
#include "collectives_random.hpp"

namespace {

// Make a call that moves data from what is sent to what is received: with a root, and without one.
int call_rooted(const Side& s, const Side& r) {
  const bool is_scatter = call.operation >= scatter;
  const void* in = call.is_in_place && !is_scatter ? MPI_IN_PLACE : s.buffer.data();
  void* out = call.is_in_place && is_scatter ? MPI_IN_PLACE : r.buffer.data();
  MPI_Comm comm = call.on.comm;
  int root = call.root;
  if (call.on.remote_size > 0 && !call.is_root_far) root = call.is_root ? MPI_ROOT : MPI_PROC_NULL;
  const int *s_counts = s.counts.data(), *s_at = s.displacements.data();
  const int *r_counts = r.counts.data(), *r_at = r.displacements.data();
  switch (call.operation) {
    case bcast:
      return MPI_Bcast(out, r.count(), r.type(), root, comm);
    case gather:
      return MPI_Gather(in, s.count(), s.type(), out, r.count(), r.type(), root, comm);
    case gatherv:
      return MPI_Gatherv(in, s.count(), s.type(), out, r_counts, r_at, r.type(), root, comm);
    case scatter:
      return MPI_Scatter(in, s.count(), s.type(), out, r.count(), r.type(), root, comm);
    default:
      return MPI_Scatterv(in, s_counts, s_at, s.type(), out, r.count(), r.type(), root, comm);
  }
}

int call_unrooted(const Side& s, const Side& r) {
  const void* in = call.is_in_place ? MPI_IN_PLACE : s.buffer.data();
  void* out = r.buffer.data();
  MPI_Comm comm = call.on.comm;
  const int *s_counts = s.counts.data(), *s_at = s.displacements.data();
  const int *r_counts = r.counts.data(), *r_at = r.displacements.data();
  switch (call.operation) {
    case allgather:
      return MPI_Allgather(in, s.count(), s.type(), out, r.count(), r.type(), comm);
    case allgatherv:
      return MPI_Allgatherv(in, s.count(), s.type(), out, r_counts, r_at, r.type(), comm);
    case alltoall:
      return MPI_Alltoall(in, s.count(), s.type(), out, r.count(), r.type(), comm);
    case alltoallv:
      return MPI_Alltoallv(in, s_counts, s_at, s.type(), out, r_counts, r_at, r.type(), comm);
    default:
      return MPI_Alltoallw(in, s_counts, s_at, s.types.data(), out, r_counts, r_at, r.types.data(), comm);
  }
}

// `elements` are those of the result, and `counts` those of each rank, for MPI_Reduce_scatter.
int call_reducing(const Buffer& sent, const Buffer& received, std::size_t elements, const std::vector<int>& counts,
                  MPI_Datatype type) {
  const MPI_Op op = reductions[call.reduction].op;
  const void* in = call.is_in_place ? MPI_IN_PLACE : sent.data();
  void* out = received.data();
  const int count = static_cast<int>(elements);
  MPI_Comm comm = call.on.comm;
  switch (call.operation) {
    case reduce:
      return MPI_Reduce(in, call.is_root || call.key % 4 < 2 ? out : nullptr, count, type, op, call.root, comm);
    case allreduce:
      return MPI_Allreduce(in, out, count, type, op, comm);
    case reduce_scatter_block:
      return MPI_Reduce_scatter_block(in, out, count, type, op, comm);
    case reduce_scatter:
      return MPI_Reduce_scatter(in, out, counts.data(), type, op, comm);
    case scan:
      return MPI_Scan(in, out, count, type, op, comm);
    default:
      return MPI_Exscan(in, out, count, type, op, comm);
  }
}

}  // namespace

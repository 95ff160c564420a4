// Converts the arguments of MPI's collective operations into events: one function per MPI function, with the parameters
// of the MPI function. To be called after the MPI library has accepted the arguments, on intracommunicators only.
#pragma once

#include "preload/observe/mpi/communicators.hpp"
#include "preload/observe/mpi/layouts.hpp"
#include "preload/observe/mpi/wrapper.hpp"

namespace nearfield::observe::events {

using stream::Collective;
using Kind = stream::CollectiveKind;
using BufferParts = std::vector<stream::Data>;

inline bool is_in_place(const void* address) { return address == MPI_IN_PLACE; }

inline bool is_commutative(MPI_Op op) {
  int answer = 1;
  PMPI(MPI_Op_commutative)(op, &answer);
  return answer;
}

// Returns the buffer as a single part; no part for MPI_IN_PLACE.
template <class Count>
BufferParts single_part(const void* address, Count count, MPI_Datatype type) {
  if (is_in_place(address)) return {};
  return {describe_buffer(address, count, type)};
}

// Returns a part of the buffer for each of `num_ranks` ranks; no parts for MPI_IN_PLACE. `offsets` are in elements.
template <class Count, class Offset>
BufferParts listed_parts(const void* address, std::size_t num_ranks, const Count* counts, const Offset* offsets,
                         MPI_Datatype type) {
  BufferParts parts;
  if (is_in_place(address)) return parts;
  const std::int64_t extent_bytes = find_or_record_layout(type).extent_bytes;
  for (std::size_t i = 0; i < num_ranks; ++i)
    parts.push_back(describe_buffer(address, counts[i], type, static_cast<std::int64_t>(offsets[i]) * extent_bytes));
  return parts;
}

// Returns a part of the buffer for each of `num_ranks` ranks, with a datatype per rank; no parts for MPI_IN_PLACE.
// `offsets` are in bytes.
template <class Count, class Offset>
BufferParts listed_parts(const void* address, std::size_t num_ranks, const Count* counts, const Offset* offsets,
                         const MPI_Datatype* types) {
  BufferParts parts;
  if (is_in_place(address)) return parts;
  for (std::size_t i = 0; i < num_ranks; ++i)
    parts.push_back(describe_buffer(address, counts[i], types[i], static_cast<std::int64_t>(offsets[i])));
  return parts;
}

// Returns a part of the buffer for each of `num_ranks` ranks; the parts are contiguous, in the order of the ranks.
template <class Count>
BufferParts contiguous_parts(const void* address, std::size_t num_ranks, const Count* counts, MPI_Datatype type) {
  std::vector<std::int64_t> offsets(num_ranks, 0);
  for (std::size_t i = 1; i < num_ranks; ++i) offsets[i] = offsets[i - 1] + static_cast<std::int64_t>(counts[i - 1]);
  return listed_parts(address, num_ranks, counts, offsets.data(), type);
}

// Returns the event of an operation, without data.
inline Collective make_event_without_data(Kind kind, MPI_Comm comm, int root = 0, bool in_place = false) {
  Collective event;
  event.kind = kind;
  event.communicator = communicator_number(comm);
  event.root = static_cast<stream::Number>(root);
  event.is_in_place = in_place;
  return event;
}

inline std::size_t num_ranks_of(MPI_Comm comm) { return static_cast<std::size_t>(find_or_add_communicator(comm).size); }
inline bool is_root(int root, MPI_Comm comm) { return find_or_add_communicator(comm).rank == root; }

inline Collective make_barrier_event(MPI_Comm comm) { return make_event_without_data(Kind::barrier, comm); }

template <class Count>
Collective make_bcast_event(const void* buffer, Count count, MPI_Datatype type, int root, MPI_Comm comm) {
  Collective event = make_event_without_data(Kind::bcast, comm, root);
  (is_root(root, comm) ? event.send_buffers : event.receive_buffers) = single_part(buffer, count, type);
  return event;
}

// ---- reductions

template <class Count>
Collective make_reduction_event(Kind kind, const void* in, const void* out, Count count, MPI_Datatype type, MPI_Op op,
                                MPI_Comm comm) {
  Collective event = make_event_without_data(kind, comm, 0, is_in_place(in));
  event.send_buffers = single_part(in, count, type);
  event.receive_buffers = single_part(out, count, type);
  event.is_commutative = is_commutative(op);
  return event;
}

template <class Count>
Collective make_reduce_event(const void* in, const void* out, Count count, MPI_Datatype type, MPI_Op op, int root,
                             MPI_Comm comm) {
  Collective event = make_reduction_event(Kind::reduce, in, out, count, type, op, comm);
  event.root = static_cast<stream::Number>(root);
  if (!is_root(root, comm)) event.receive_buffers.clear();
  return event;
}

template <class Count>
Collective make_allreduce_event(const void* in, const void* out, Count count, MPI_Datatype type, MPI_Op op,
                                MPI_Comm comm) {
  return make_reduction_event(Kind::allreduce, in, out, count, type, op, comm);
}
template <class Count>
Collective make_scan_event(const void* in, const void* out, Count count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  return make_reduction_event(Kind::scan, in, out, count, type, op, comm);
}
template <class Count>
Collective make_exscan_event(const void* in, const void* out, Count count, MPI_Datatype type, MPI_Op op,
                             MPI_Comm comm) {
  return make_reduction_event(Kind::exscan, in, out, count, type, op, comm);
}
template <class Count>
Collective make_reduce_scatter_block_event(const void* in, const void* out, Count count, MPI_Datatype type, MPI_Op op,
                                           MPI_Comm comm) {
  return make_reduction_event(Kind::reduce_scatter_block, in, out, count, type, op, comm);
}

template <class Count>
Collective make_reduce_scatter_event(const void* in, const void* out, const Count* counts, MPI_Datatype type, MPI_Op op,
                                     MPI_Comm comm) {
  Collective event = make_event_without_data(Kind::reduce_scatter, comm, 0, is_in_place(in));
  const std::size_t num_ranks = num_ranks_of(comm);
  event.send_buffers = contiguous_parts(in, num_ranks, counts, type);
  event.receive_buffers = event.is_in_place ? contiguous_parts(out, num_ranks, counts, type)
                                            : single_part(out, counts[find_or_add_communicator(comm).rank], type);
  event.is_commutative = is_commutative(op);
  return event;
}

// ---- rooted operations

template <class Count>
Collective make_gather_event(const void* in, Count in_count, MPI_Datatype in_type, const void* out, Count out_count,
                             MPI_Datatype out_type, int root, MPI_Comm comm) {
  Collective event = make_event_without_data(Kind::gather, comm, root, is_in_place(in));
  event.send_buffers = single_part(in, in_count, in_type);
  if (is_root(root, comm)) event.receive_buffers = single_part(out, out_count, out_type);
  return event;
}

template <class Count, class Offset>
Collective make_gatherv_event(const void* in, Count in_count, MPI_Datatype in_type, const void* out,
                              const Count* counts, const Offset* offsets, MPI_Datatype out_type, int root,
                              MPI_Comm comm) {
  Collective event = make_event_without_data(Kind::gatherv, comm, root, is_in_place(in));
  event.send_buffers = single_part(in, in_count, in_type);
  if (is_root(root, comm)) event.receive_buffers = listed_parts(out, num_ranks_of(comm), counts, offsets, out_type);
  return event;
}

template <class Count>
Collective make_scatter_event(const void* in, Count in_count, MPI_Datatype in_type, const void* out, Count out_count,
                              MPI_Datatype out_type, int root, MPI_Comm comm) {
  Collective event = make_event_without_data(Kind::scatter, comm, root, is_in_place(out));
  if (is_root(root, comm)) event.send_buffers = single_part(in, in_count, in_type);
  event.receive_buffers = single_part(out, out_count, out_type);
  return event;
}

template <class Count, class Offset>
Collective make_scatterv_event(const void* in, const Count* counts, const Offset* offsets, MPI_Datatype in_type,
                               const void* out, Count out_count, MPI_Datatype out_type, int root, MPI_Comm comm) {
  Collective event = make_event_without_data(Kind::scatterv, comm, root, is_in_place(out));
  if (is_root(root, comm)) event.send_buffers = listed_parts(in, num_ranks_of(comm), counts, offsets, in_type);
  event.receive_buffers = single_part(out, out_count, out_type);
  return event;
}

// ---- all-to-all and neighbourhood operations

template <class Count>
Collective make_event_of_single_parts(Kind kind, const void* in, Count in_count, MPI_Datatype in_type, const void* out,
                                      Count out_count, MPI_Datatype out_type, MPI_Comm comm) {
  Collective event = make_event_without_data(kind, comm, 0, is_in_place(in));
  event.send_buffers = single_part(in, in_count, in_type);
  event.receive_buffers = single_part(out, out_count, out_type);
  return event;
}

// Returns the event of an allgatherv: each rank sends the same data to all and receives a part from each of
// `num_sources` ranks.
template <class Count, class Offset>
Collective make_event_with_listed_receives(Kind kind, std::size_t num_sources, const void* in, Count in_count,
                                           MPI_Datatype in_type, const void* out, const Count* counts,
                                           const Offset* offsets, MPI_Datatype out_type, MPI_Comm comm) {
  Collective event = make_event_without_data(kind, comm, 0, is_in_place(in));
  event.send_buffers = single_part(in, in_count, in_type);
  event.receive_buffers = listed_parts(out, num_sources, counts, offsets, out_type);
  return event;
}

// Returns the event of an alltoallv or alltoallw: each rank sends a part to each of `num_destinations` ranks and
// receives a part from each of `num_sources` ranks. `Types` is MPI_Datatype, or a pointer to one datatype per rank.
template <class Count, class Offset, class Types>
Collective make_event_with_listed_parts(Kind kind, std::size_t num_destinations, std::size_t num_sources,
                                        const void* in, const Count* in_count, const Offset* offsets_in, Types in_type,
                                        const void* out, const Count* out_count, const Offset* offsets_out,
                                        Types out_type, MPI_Comm comm) {
  Collective event = make_event_without_data(kind, comm, 0, is_in_place(in));
  event.send_buffers = listed_parts(in, num_destinations, in_count, offsets_in, in_type);
  event.receive_buffers = listed_parts(out, num_sources, out_count, offsets_out, out_type);
  return event;
}

inline std::size_t num_sources_of(MPI_Comm comm) { return find_or_add_communicator(comm).event.sources.size(); }
inline std::size_t num_destinations_of(MPI_Comm comm) {
  return find_or_add_communicator(comm).event.destinations.size();
}

}  // namespace nearfield::observe::events

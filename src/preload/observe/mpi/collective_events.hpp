// Converts the arguments of MPI's collective operations into events: one function per MPI function, with the parameters
// of the MPI function. To be called after the MPI library has accepted the arguments, on intracommunicators only.
#pragma once

#include "preload/observe/mpi/communicators.hpp"
#include "preload/observe/mpi/layouts.hpp"
#include "preload/observe/mpi/wrapper.hpp"

namespace nearfield::observe::events {

using stream::Collective;
using Kind = stream::CollectiveKind;
using Parts = std::vector<stream::Data>;

inline bool is_in_place(const void* address) { return address == MPI_IN_PLACE; }

inline bool is_commutative(MPI_Op op) {
  int answer = 1;
  PMPI(MPI_Op_commutative)(op, &answer);
  return answer;
}

// Returns the buffer as a single part; no part for MPI_IN_PLACE.
template <class Count>
Parts single_part(const void* address, Count count, MPI_Datatype type) {
  if (is_in_place(address)) return {};
  return {data_of_buffer(address, count, type)};
}

// Returns a part of the buffer for each of `n` ranks; no parts for MPI_IN_PLACE. `offsets` are in elements.
template <class Count, class Offset>
Parts listed_parts(const void* address, std::size_t n, const Count* counts, const Offset* offsets, MPI_Datatype type) {
  Parts parts;
  if (is_in_place(address)) return parts;
  const std::int64_t extent_bytes = layout_of(type).extent_bytes;
  for (std::size_t i = 0; i < n; ++i)
    parts.push_back(data_of_buffer(address, counts[i], type, static_cast<std::int64_t>(offsets[i]) * extent_bytes));
  return parts;
}

// Returns a part of the buffer for each of `n` ranks, with a datatype per rank; no parts for MPI_IN_PLACE. `offsets`
// are in bytes.
template <class Count, class Offset>
Parts listed_parts(const void* address, std::size_t n, const Count* counts, const Offset* offsets,
                   const MPI_Datatype* types) {
  Parts parts;
  if (is_in_place(address)) return parts;
  for (std::size_t i = 0; i < n; ++i)
    parts.push_back(data_of_buffer(address, counts[i], types[i], static_cast<std::int64_t>(offsets[i])));
  return parts;
}

// Returns a part of the buffer for each of `n` ranks; the parts are contiguous, in the order of the ranks.
template <class Count>
Parts contiguous_parts(const void* address, std::size_t n, const Count* counts, MPI_Datatype type) {
  std::vector<std::int64_t> offsets(n, 0);
  for (std::size_t i = 1; i < n; ++i) offsets[i] = offsets[i - 1] + static_cast<std::int64_t>(counts[i - 1]);
  return listed_parts(address, n, counts, offsets.data(), type);
}

// Returns the event of an operation, without data.
inline Collective event_without_data(Kind kind, MPI_Comm comm, int root = 0, bool in_place = false) {
  Collective event;
  event.kind = kind;
  event.communicator = communicator_number(comm);
  event.root = static_cast<stream::Number>(root);
  event.in_place = in_place;
  return event;
}

inline std::size_t size_of(MPI_Comm comm) { return static_cast<std::size_t>(known_communicator(comm).size); }
inline bool is_root(int root, MPI_Comm comm) { return known_communicator(comm).rank == root; }

inline Collective barrier(MPI_Comm comm) { return event_without_data(Kind::barrier, comm); }

template <class Count>
Collective bcast(const void* buffer, Count count, MPI_Datatype type, int root, MPI_Comm comm) {
  Collective event = event_without_data(Kind::bcast, comm, root);
  (is_root(root, comm) ? event.gives : event.gets) = single_part(buffer, count, type);
  return event;
}

// ---- reductions

template <class Count>
Collective reduction_event(Kind kind, const void* in, const void* out, Count count, MPI_Datatype type, MPI_Op op,
                           MPI_Comm comm) {
  Collective event = event_without_data(kind, comm, 0, is_in_place(in));
  event.gives = single_part(in, count, type);
  event.gets = single_part(out, count, type);
  event.commutes = is_commutative(op);
  return event;
}

template <class Count>
Collective reduce(const void* in, const void* out, Count count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm) {
  Collective event = reduction_event(Kind::reduce, in, out, count, type, op, comm);
  event.root = static_cast<stream::Number>(root);
  if (!is_root(root, comm)) event.gets.clear();
  return event;
}

template <class Count>
Collective allreduce(const void* in, const void* out, Count count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  return reduction_event(Kind::allreduce, in, out, count, type, op, comm);
}
template <class Count>
Collective scan(const void* in, const void* out, Count count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  return reduction_event(Kind::scan, in, out, count, type, op, comm);
}
template <class Count>
Collective exscan(const void* in, const void* out, Count count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  return reduction_event(Kind::exscan, in, out, count, type, op, comm);
}
template <class Count>
Collective reduce_scatter_block(const void* in, const void* out, Count count, MPI_Datatype type, MPI_Op op,
                                MPI_Comm comm) {
  return reduction_event(Kind::reduce_scatter_block, in, out, count, type, op, comm);
}

template <class Count>
Collective reduce_scatter(const void* in, const void* out, const Count* counts, MPI_Datatype type, MPI_Op op,
                          MPI_Comm comm) {
  Collective event = event_without_data(Kind::reduce_scatter, comm, 0, is_in_place(in));
  const std::size_t n = size_of(comm);
  event.gives = contiguous_parts(in, n, counts, type);
  event.gets = event.in_place ? contiguous_parts(out, n, counts, type)
                              : single_part(out, counts[known_communicator(comm).rank], type);
  event.commutes = is_commutative(op);
  return event;
}

// ---- rooted operations

template <class Count>
Collective gather(const void* in, Count n_in, MPI_Datatype t_in, const void* out, Count n_out, MPI_Datatype t_out,
                  int root, MPI_Comm comm) {
  Collective event = event_without_data(Kind::gather, comm, root, is_in_place(in));
  event.gives = single_part(in, n_in, t_in);
  if (is_root(root, comm)) event.gets = single_part(out, n_out, t_out);
  return event;
}

template <class Count, class Offset>
Collective gatherv(const void* in, Count n_in, MPI_Datatype t_in, const void* out, const Count* counts,
                   const Offset* offsets, MPI_Datatype t_out, int root, MPI_Comm comm) {
  Collective event = event_without_data(Kind::gatherv, comm, root, is_in_place(in));
  event.gives = single_part(in, n_in, t_in);
  if (is_root(root, comm)) event.gets = listed_parts(out, size_of(comm), counts, offsets, t_out);
  return event;
}

template <class Count>
Collective scatter(const void* in, Count n_in, MPI_Datatype t_in, const void* out, Count n_out, MPI_Datatype t_out,
                   int root, MPI_Comm comm) {
  Collective event = event_without_data(Kind::scatter, comm, root, is_in_place(out));
  if (is_root(root, comm)) event.gives = single_part(in, n_in, t_in);
  event.gets = single_part(out, n_out, t_out);
  return event;
}

template <class Count, class Offset>
Collective scatterv(const void* in, const Count* counts, const Offset* offsets, MPI_Datatype t_in, const void* out,
                    Count n_out, MPI_Datatype t_out, int root, MPI_Comm comm) {
  Collective event = event_without_data(Kind::scatterv, comm, root, is_in_place(out));
  if (is_root(root, comm)) event.gives = listed_parts(in, size_of(comm), counts, offsets, t_in);
  event.gets = single_part(out, n_out, t_out);
  return event;
}

// ---- all-to-all and neighbourhood operations

template <class Count>
Collective collective_of_single_parts(Kind kind, const void* in, Count n_in, MPI_Datatype t_in, const void* out,
                                      Count n_out, MPI_Datatype t_out, MPI_Comm comm) {
  Collective event = event_without_data(kind, comm, 0, is_in_place(in));
  event.gives = single_part(in, n_in, t_in);
  event.gets = single_part(out, n_out, t_out);
  return event;
}

// Returns the event of an allgatherv: each rank sends the same data to all and receives a part from each of `sources`
// ranks.
template <class Count, class Offset>
Collective collective_with_listed_receives(Kind kind, std::size_t sources, const void* in, Count n_in,
                                           MPI_Datatype t_in, const void* out, const Count* counts,
                                           const Offset* offsets, MPI_Datatype t_out, MPI_Comm comm) {
  Collective event = event_without_data(kind, comm, 0, is_in_place(in));
  event.gives = single_part(in, n_in, t_in);
  event.gets = listed_parts(out, sources, counts, offsets, t_out);
  return event;
}

// Returns the event of an alltoallv or alltoallw: each rank sends a part to each of `destinations` ranks and receives a
// part from each of `sources` ranks. `Types` is MPI_Datatype, or a pointer to one datatype per rank.
template <class Count, class Offset, class Types>
Collective collective_with_listed_parts(Kind kind, std::size_t destinations, std::size_t sources, const void* in,
                                        const Count* n_in, const Offset* offsets_in, Types t_in, const void* out,
                                        const Count* n_out, const Offset* offsets_out, Types t_out, MPI_Comm comm) {
  Collective event = event_without_data(kind, comm, 0, is_in_place(in));
  event.gives = listed_parts(in, destinations, n_in, offsets_in, t_in);
  event.gets = listed_parts(out, sources, n_out, offsets_out, t_out);
  return event;
}

inline std::size_t sources_of(MPI_Comm comm) { return known_communicator(comm).event.sources.size(); }
inline std::size_t destinations_of(MPI_Comm comm) { return known_communicator(comm).event.destinations.size(); }

}  // namespace nearfield::observe::events

// The MPI functions on which this library interposes. A call is direct if this library performs the collective itself:
// if the communicator lies in one node, the arguments are valid, and the operator is listed in operators.hpp. On
// communicators that span nodes, across_nodes.hpp performs some collectives. All other calls are forwarded to the MPI
// library, which also reports all errors. Whether a call is direct depends only on arguments that are equal on all
// ranks of a correct program.
#include "base/export.h"
#include "base/job_watch.hpp"
#include "preload/collectives/across_nodes.hpp"
#include "preload/collectives/counts.hpp"
#include "preload/collectives/in_node.hpp"
#include "preload/collectives/operators.hpp"
#include "preload/mpi/handles.hpp"
#include "preload/mpi/wrap.hpp"

using namespace nearfield::collectives;

namespace {

// Calls with arguments that are not valid are forwarded to the MPI library, which reports the error.
bool are_valid_arguments(std::int64_t count, MPI_Datatype type) { return count >= 0 && type != MPI_DATATYPE_NULL; }
// A null buffer is valid with a derived datatype, since some MPIs define MPI_BOTTOM as null.
bool are_valid_arguments(const void* buffer, std::int64_t count, MPI_Datatype type) {
  return are_valid_arguments(count, type) && (buffer || count == 0 || !find_predefined_type(type));
}

NodeComm* find_node_comm(MPI_Comm comm, int root) {
  NodeComm* const node = NodeComm::find_or_create(comm);
  return node && root >= 0 && root < node->ranks() ? node : nullptr;
}
// Returns `node`; null if the communicator spans nodes.
NodeComm* node_unless_spanning_nodes(NodeComm* node) { return node && !node->spans_nodes() ? node : nullptr; }

// Returns `node`; null if the MPI library's own algorithm is selected for this operation and length.
NodeComm* node_unless_mpi_selected(NodeComm* node, Operation operation, std::int64_t count, MPI_Datatype type) {
  return node && node->choose_algorithm(operation, count, type).algorithm != Algorithm::mpi ? node : nullptr;
}

Bytes* as_bytes(const void* buffer) { return static_cast<Bytes*>(const_cast<void*>(buffer)); }

// The part, for one rank, of a buffer that has a part for each rank.
struct BufferPart {
  const void* buffer;
  std::int64_t count;
  MPI_Datatype type;
};
NodeComm* node_unless_mpi_selected(NodeComm* node, Operation operation, const BufferPart& block) {
  return node_unless_mpi_selected(node, operation, block.count, block.type);
}
BufferPart part_at(const void* buffer, std::int64_t displacement, std::int64_t count, MPI_Datatype type) {
  return {as_bytes(buffer) + displacement * type_extent(type), count, type};
}

template <class GetBufferPart>
bool are_valid_parts(int ranks, GetBufferPart part) {
  for (int i = 0; i < ranks; ++i)
    if (const BufferPart one = part(i); !are_valid_arguments(one.count, one.type)) return false;
  return true;
}

// Returns the parts of all ranks as contiguous data, packed if needed.
template <class GetBufferPart>
std::vector<SendBuffer> make_send_buffers(const NodeComm& node, GetBufferPart part, MPI_Comm comm) {
  std::vector<SendBuffer> buffers;
  buffers.reserve(static_cast<std::size_t>(node.ranks()));
  for (int i = 0; i < node.ranks(); ++i) buffers.emplace_back(part(i).buffer, part(i).count, part(i).type, comm);
  return buffers;
}
template <class GetBufferPart>
std::vector<ReceiveBuffer> make_receive_buffers(const NodeComm& node, GetBufferPart part, MPI_Comm comm) {
  std::vector<ReceiveBuffer> buffers;
  buffers.reserve(static_cast<std::size_t>(node.ranks()));
  for (int i = 0; i < node.ranks(); ++i)
    buffers.emplace_back(as_bytes(part(i).buffer), part(i).count, part(i).type, comm);
  return buffers;
}
auto get_piece_from(const std::vector<SendBuffer>& parts) {
  return [&parts](int rank) {
    const SendBuffer& part = parts[static_cast<std::size_t>(rank)];
    return Piece{part.data(), part.bytes()};
  };
}
auto get_target_from(const std::vector<ReceiveBuffer>& parts) {
  return [&parts](int rank) {
    const ReceiveBuffer& part = parts[static_cast<std::size_t>(rank)];
    return std::pair(part.data(), part.bytes());
  };
}

// Copies this rank's own part from the send buffer to the receive buffer.
void copy_own_part(const SendBuffer& from, ReceiveBuffer& to) {
  if (from.bytes() > 0) std::memcpy(to.data(), from.data(), std::min(from.bytes(), to.bytes()));
  to.unpack();
}

// ---- direct collectives: each function returns whether it has performed the collective

bool try_barrier(MPI_Comm comm) {
  NodeComm* const node = NodeComm::find_or_create(comm);
  if (!node) return false;
  if (node->spans_nodes()) return across_nodes::barrier(*node);
  const AlgorithmChoice choice = node->choose_algorithm(Operation::barrier, 0);
  if (choice.algorithm == Algorithm::mpi) return false;
  run_barrier(node->exchange(), choice);
  return true;
}

bool bcast_across_nodes(NodeComm& node, void* buffer, std::int64_t count, MPI_Datatype type, int root, MPI_Comm comm) {
  if (node.rank() == root) {
    const SendBuffer data(buffer, count, type, comm);
    return across_nodes::bcast(node, const_cast<Bytes*>(data.data()), data.bytes(), root);
  }
  ReceiveBuffer data(buffer, count, type, comm);
  const bool is_done = across_nodes::bcast(node, data.data(), data.bytes(), root);
  if (is_done) data.unpack();
  return is_done;
}

bool try_bcast(void* buffer, std::int64_t count, MPI_Datatype type, int root, MPI_Comm comm) {
  NodeComm* const node = are_valid_arguments(buffer, count, type) ? find_node_comm(comm, root) : nullptr;
  const AlgorithmChoice choice =
      node ? node->choose_algorithm(Operation::bcast, count, type) : AlgorithmChoice{Algorithm::mpi};
  if (choice.algorithm == Algorithm::mpi) return false;
  if (node->spans_nodes()) return bcast_across_nodes(*node, buffer, count, type, root, comm);
  if (node->rank() == root) {
    const SendBuffer data(buffer, count, type, comm);
    run_bcast(node->exchange(), const_cast<Bytes*>(data.data()), data.bytes(), root, choice);
  } else {
    ReceiveBuffer data(buffer, count, type, comm);
    run_bcast(node->exchange(), data.data(), data.bytes(), root, choice);
    data.unpack();
  }
  return true;
}

// `has_equal_blocks`: all ranks send the same number of bytes (MPI_Gather), so the length of the root's first part
// selects the algorithm; otherwise (MPI_Gatherv) no algorithm is selected by length.
template <class GetBufferPart>
bool try_gather(BufferPart own_part, GetBufferPart part, int root, MPI_Comm comm, bool has_equal_blocks) {
  NodeComm* node = node_unless_spanning_nodes(find_node_comm(comm, root));
  if (node && has_equal_blocks)
    node = node_unless_mpi_selected(node, Operation::gather, node->rank() == root ? part(0) : own_part);
  if (!node) return false;
  if (node->rank() != root) {
    if (!are_valid_arguments(own_part.buffer, own_part.count, own_part.type)) return false;
    const SendBuffer data(own_part.buffer, own_part.count, own_part.type, comm);
    gather(node->exchange(), data.data(), data.bytes(), root, [](int) { return std::pair<Bytes*, std::size_t>(); });
    return true;
  }
  if (!are_valid_parts(node->ranks(), part)) return false;
  std::vector<ReceiveBuffer> parts = make_receive_buffers(*node, part, comm);
  if (own_part.buffer != MPI_IN_PLACE)
    copy_own_part(SendBuffer(own_part.buffer, own_part.count, own_part.type, comm),
                  parts[static_cast<std::size_t>(root)]);
  gather(node->exchange(), nullptr, 0, root, get_target_from(parts));
  for (int i = 0; i < node->ranks(); ++i)
    if (i != root) parts[static_cast<std::size_t>(i)].unpack();
  return true;
}

template <class GetBufferPart>
bool try_scatter(GetBufferPart part, BufferPart own_part, int root, MPI_Comm comm, bool has_equal_blocks) {
  NodeComm* node = node_unless_spanning_nodes(find_node_comm(comm, root));
  if (node && has_equal_blocks)
    node = node_unless_mpi_selected(node, Operation::scatter, node->rank() == root ? part(0) : own_part);
  if (!node) return false;
  if (node->rank() != root) {
    if (!are_valid_arguments(own_part.buffer, own_part.count, own_part.type)) return false;
    ReceiveBuffer data(as_bytes(own_part.buffer), own_part.count, own_part.type, comm);
    scatter(node->exchange(), [](int) { return Piece{}; }, data.data(), data.bytes(), root);
    data.unpack();
    return true;
  }
  if (!are_valid_parts(node->ranks(), part)) return false;
  const std::vector<SendBuffer> parts = make_send_buffers(*node, part, comm);
  scatter(node->exchange(), get_piece_from(parts), nullptr, 0, root);
  if (own_part.buffer == MPI_IN_PLACE) return true;
  ReceiveBuffer data(as_bytes(own_part.buffer), own_part.count, own_part.type, comm);
  copy_own_part(parts[static_cast<std::size_t>(root)], data);
  return true;
}

bool try_allgather(BufferPart own_part, void* receive, std::int64_t count, MPI_Datatype type, MPI_Comm comm) {
  NodeComm* const found = are_valid_arguments(receive, count, type) ? NodeComm::find_or_create(comm) : nullptr;
  NodeComm* const node = node_unless_mpi_selected(found, Operation::allgather, count, type);
  if (!node) return false;
  if (own_part.buffer == MPI_IN_PLACE) own_part = part_at(receive, node->rank() * count, count, type);
  const SendBuffer data(own_part.buffer, own_part.count, own_part.type, comm);
  ReceiveBuffer received_data(receive, count * node->ranks(), type, comm);
  const std::size_t bytes = received_data.bytes() / static_cast<std::size_t>(node->ranks());
  if (node->spans_nodes()) {
    const bool is_done = across_nodes::allgather(*node, data.data(), received_data.data(), bytes);
    if (is_done) received_data.unpack();
    return is_done;
  }
  run_allgather(node->exchange(), data.data(), received_data.data(), bytes,
                node->choose_algorithm(Operation::allgather, bytes));
  received_data.unpack();
  return true;
}

template <class GetBufferPart>
bool try_allgatherv(BufferPart own_part, GetBufferPart part, MPI_Comm comm) {
  NodeComm* const node = node_unless_spanning_nodes(NodeComm::find_or_create(comm));
  if (!node || !are_valid_parts(node->ranks(), part)) return false;
  if (own_part.buffer == MPI_IN_PLACE) own_part = part(node->rank());
  const SendBuffer data(own_part.buffer, own_part.count, own_part.type, comm);
  std::vector<ReceiveBuffer> parts = make_receive_buffers(*node, part, comm);
  allgather(node->exchange(), data.data(), data.bytes(), get_target_from(parts));
  for (ReceiveBuffer& one : parts) one.unpack();
  return true;
}

bool try_alltoall(const void* send, std::int64_t send_count, MPI_Datatype send_type, void* receive, std::int64_t count,
                  MPI_Datatype type, MPI_Comm comm) {
  NodeComm* const found = are_valid_arguments(receive, count, type) ? NodeComm::find_or_create(comm) : nullptr;
  NodeComm* const node = node_unless_mpi_selected(found, Operation::alltoall, count, type);
  if (!node) return false;
  const bool is_in_place = send == MPI_IN_PLACE;
  SendBuffer send_data(is_in_place ? receive : send, (is_in_place ? count : send_count) * node->ranks(),
                       is_in_place ? type : send_type, comm);
  if (is_in_place) send_data.ensure_private_copy();
  ReceiveBuffer received_data(receive, count * node->ranks(), type, comm);
  const std::size_t bytes = received_data.bytes() / static_cast<std::size_t>(node->ranks());
  if (node->spans_nodes()) {
    const bool is_done = across_nodes::alltoall(*node, send_data.data(), received_data.data(), bytes);
    if (is_done) received_data.unpack();
    return is_done;
  }
  run_alltoall(node->exchange(), send_data.data(), received_data.data(), bytes,
               node->choose_algorithm(Operation::alltoall, bytes));
  received_data.unpack();
  return true;
}

template <class GetSent, class GetReceived>
bool try_alltoallv(bool is_in_place, GetSent send_part, GetReceived receive_part, MPI_Comm comm) {
  NodeComm* const node = node_unless_spanning_nodes(NodeComm::find_or_create(comm));
  if (!node || !are_valid_parts(node->ranks(), receive_part)) return false;
  if (!is_in_place && !are_valid_parts(node->ranks(), send_part)) return false;
  std::vector<SendBuffer> send_buffers =
      is_in_place ? make_send_buffers(*node, receive_part, comm) : make_send_buffers(*node, send_part, comm);
  if (is_in_place)
    for (SendBuffer& one : send_buffers) one.ensure_private_copy();
  std::vector<ReceiveBuffer> receive_buffers = make_receive_buffers(*node, receive_part, comm);
  alltoallv(node->exchange(), get_piece_from(send_buffers), get_target_from(receive_buffers));
  for (ReceiveBuffer& one : receive_buffers) one.unpack();
  return true;
}

// If this library implements the operator on this datatype, and the MPI library's own algorithm is not selected for
// this length, calls `reduce(node, send buffer, reduction, choice)` and returns its result. Otherwise returns false.
template <class Reduce>
bool try_reduction(Operation operation, const void* send, const void* receive, std::int64_t count, MPI_Datatype type,
                   MPI_Op op, NodeComm* node, Reduce reduce) {
  Operator op_on_type;
  const void* const source = send == MPI_IN_PLACE ? receive : send;
  if (!node || !are_valid_arguments(source, count, type) || !Operator::find_operator(op, type, op_on_type))
    return false;
  const AlgorithmChoice choice = node->choose_algorithm(operation, count, type);
  if (choice.algorithm == Algorithm::mpi) return false;
  const LiveReduction reduction{static_cast<std::size_t>(count), op_on_type.element_extent_bytes(), op_on_type};
  return reduce(*node, as_bytes(source), reduction, choice);
}

bool try_reduce(const void* send, void* receive, std::int64_t count, MPI_Datatype type, MPI_Op op, int root,
                MPI_Comm comm) {
  Bytes* const result = as_bytes(receive);
  return try_reduction(Operation::reduce, send, receive, count, type, op, find_node_comm(comm, root),
                       [&](NodeComm& node, const Bytes* data, const LiveReduction& reduction, AlgorithmChoice choice) {
                         if (node.spans_nodes())
                           return across_nodes::reduce(node, data, result, reduction, type, op, root);
                         run_reduce(node.exchange(), data, result, reduction, root, choice);
                         return true;
                       });
}

bool try_allreduce(const void* send, void* receive, std::int64_t count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  Bytes* const result = as_bytes(receive);
  return try_reduction(Operation::allreduce, send, receive, count, type, op, NodeComm::find_or_create(comm),
                       [&](NodeComm& node, const Bytes* data, const LiveReduction& reduction, AlgorithmChoice choice) {
                         if (node.spans_nodes())
                           return across_nodes::allreduce(node, data, result, reduction, type, op);
                         run_allreduce(node.exchange(), data, result, reduction, choice);
                         return true;
                       });
}

// `count(i)` returns the number of elements that rank i receives.
template <class GetCountOfRank>
bool try_reduce_scatter(const void* send, void* receive, GetCountOfRank count, MPI_Datatype type, MPI_Op op,
                        MPI_Comm comm) {
  NodeComm* const node = node_unless_spanning_nodes(NodeComm::find_or_create(comm));
  if (!node) return false;
  std::int64_t total = 0;
  Slice own{0, 0};
  for (int i = 0; i < node->ranks(); ++i) {
    if (count(i) < 0) return false;
    if (i == node->rank()) own.begin = static_cast<std::size_t>(total);
    total += count(i);
    if (i == node->rank()) own.end = static_cast<std::size_t>(total);
  }
  return try_reduction(Operation::reduce_scatter, send, receive, total, type, op, node,
                       [&](NodeComm& found, const Bytes* data, const LiveReduction& reduction, AlgorithmChoice) {
                         reduce_scatter(found.exchange(), data, as_bytes(receive), own, reduction);
                         return true;
                       });
}

bool try_scan(const void* send, void* receive, std::int64_t count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
              bool is_exclusive) {
  return try_reduction(
      Operation::scan, send, receive, count, type, op, node_unless_spanning_nodes(NodeComm::find_or_create(comm)),
      [&](NodeComm& node, const Bytes* data, const LiveReduction& reduction, AlgorithmChoice) {
        scan(node.exchange(), data, as_bytes(receive), reduction, node.rank() - (is_exclusive ? 1 : 0));
        return true;
      });
}

}  // namespace

// Defines the wrapper of the MPI function `name`. `try_collective` is an expression that performs the collective and is
// true if it has succeeded; if it is false, the wrapper calls the MPI library.
#define WRAP(name, parameters, arguments, try_collective)                    \
  NEARFIELD_EXPORT int name parameters {                                     \
    static FunctionCallCounts& counts = *new FunctionCallCounts(#name);      \
    CountedCall call(counts);                                                \
    const nearfield::NodeWait wait(NodeComm::waits_for_watched_nodes(comm)); \
    call.is_direct = try_collective;                                         \
    return call.is_direct ? MPI_SUCCESS : PMPI(name) arguments;              \
  }                                                                          \
  NEARFIELD_EXPORT_PMPI(name)

NEARFIELD_EXPORT int MPI_Finalize() {
  int rank = 0, ranks = 0;
  if (PMPI(MPI_Comm_rank)(MPI_COMM_WORLD, &rank) == MPI_SUCCESS &&
      PMPI(MPI_Comm_size)(MPI_COMM_WORLD, &ranks) == MPI_SUCCESS) {
    if (rank == 0) print_call_summary(rank);
    write_call_lengths(rank, ranks);
  }
  stop_freeing_lane_comms();
  nearfield::stop_job_watch();
  return PMPI(MPI_Finalize)();
}
NEARFIELD_EXPORT_PMPI(MPI_Finalize)

WRAP(MPI_Barrier, (MPI_Comm comm), (comm), try_barrier(comm))

// Functions that return the part of a buffer that belongs to rank i: by arrays of counts and displacements in elements
// (PART_BY_COUNTS), by one count for all ranks (PART_BY_COUNT), or by arrays of counts, displacements in bytes and
// datatypes (PART_BY_TYPES).
#define PART_BY_COUNTS(buffer, counts, displacements, type) \
  [&](int i) { return part_at(buffer, displacements[i], counts[i], type); }
#define PART_BY_COUNT(buffer, count, type) [&](int i) { return part_at(buffer, std::int64_t{i} * count, count, type); }
#define PART_BY_TYPES(buffer, counts, displacements, types) \
  [&](int i) { return BufferPart{as_bytes(buffer) + displacements[i], counts[i], types[i]}; }
#define OWN_PART(buffer, count, type) \
  BufferPart { buffer, count, type }

#define WRAP_ALL_COLLECTIVES(suffix, Count, Displacement)                                                             \
  WRAP(MPI_Bcast##suffix, (void* buffer, Count n, MPI_Datatype type, int root, MPI_Comm comm),                        \
       (buffer, n, type, root, comm), try_bcast(buffer, n, type, root, comm))                                         \
  WRAP(MPI_Gather##suffix,                                                                                            \
       (const void* from, Count n_from, MPI_Datatype t_from, void* to, Count n_to, MPI_Datatype t_to, int root,       \
        MPI_Comm comm),                                                                                               \
       (from, n_from, t_from, to, n_to, t_to, root, comm),                                                            \
       try_gather(OWN_PART(from, n_from, t_from), PART_BY_COUNT(to, n_to, t_to), root, comm, true))                   \
  WRAP(MPI_Gatherv##suffix,                                                                                           \
       (const void* from, Count n_from, MPI_Datatype t_from, void* to, const Count n_to[], const Displacement d_to[], \
        MPI_Datatype t_to, int root, MPI_Comm comm),                                                                  \
       (from, n_from, t_from, to, n_to, d_to, t_to, root, comm),                                                      \
       try_gather(OWN_PART(from, n_from, t_from), PART_BY_COUNTS(to, n_to, d_to, t_to), root, comm, false))           \
  WRAP(MPI_Scatter##suffix,                                                                                           \
       (const void* from, Count n_from, MPI_Datatype t_from, void* to, Count n_to, MPI_Datatype t_to, int root,       \
        MPI_Comm comm),                                                                                               \
       (from, n_from, t_from, to, n_to, t_to, root, comm),                                                            \
       try_scatter(PART_BY_COUNT(from, n_from, t_from), OWN_PART(to, n_to, t_to), root, comm, true))                  \
  WRAP(MPI_Scatterv##suffix,                                                                                          \
       (const void* from, const Count n_from[], const Displacement d_from[], MPI_Datatype t_from, void* to,           \
        Count n_to, MPI_Datatype t_to, int root, MPI_Comm comm),                                                      \
       (from, n_from, d_from, t_from, to, n_to, t_to, root, comm),                                                    \
       try_scatter(PART_BY_COUNTS(from, n_from, d_from, t_from), OWN_PART(to, n_to, t_to), root, comm, false))        \
  WRAP(MPI_Allgather##suffix,                                                                                         \
       (const void* from, Count n_from, MPI_Datatype t_from, void* to, Count n_to, MPI_Datatype t_to, MPI_Comm comm), \
       (from, n_from, t_from, to, n_to, t_to, comm),                                                                  \
       try_allgather(OWN_PART(from, n_from, t_from), to, n_to, t_to, comm))                                           \
  WRAP(MPI_Allgatherv##suffix,                                                                                        \
       (const void* from, Count n_from, MPI_Datatype t_from, void* to, const Count n_to[], const Displacement d_to[], \
        MPI_Datatype t_to, MPI_Comm comm),                                                                            \
       (from, n_from, t_from, to, n_to, d_to, t_to, comm),                                                            \
       try_allgatherv(OWN_PART(from, n_from, t_from), PART_BY_COUNTS(to, n_to, d_to, t_to), comm))                    \
  WRAP(MPI_Alltoall##suffix,                                                                                          \
       (const void* from, Count n_from, MPI_Datatype t_from, void* to, Count n_to, MPI_Datatype t_to, MPI_Comm comm), \
       (from, n_from, t_from, to, n_to, t_to, comm), try_alltoall(from, n_from, t_from, to, n_to, t_to, comm))        \
  WRAP(MPI_Alltoallv##suffix,                                                                                         \
       (const void* from, const Count n_from[], const Displacement d_from[], MPI_Datatype t_from, void* to,           \
        const Count n_to[], const Displacement d_to[], MPI_Datatype t_to, MPI_Comm comm),                             \
       (from, n_from, d_from, t_from, to, n_to, d_to, t_to, comm),                                                    \
       try_alltoallv(from == MPI_IN_PLACE, PART_BY_COUNTS(from, n_from, d_from, t_from),                              \
                     PART_BY_COUNTS(to, n_to, d_to, t_to), comm))                                                     \
  WRAP(MPI_Alltoallw##suffix,                                                                                         \
       (const void* from, const Count n_from[], const Displacement d_from[], const MPI_Datatype t_from[], void* to,   \
        const Count n_to[], const Displacement d_to[], const MPI_Datatype t_to[], MPI_Comm comm),                     \
       (from, n_from, d_from, t_from, to, n_to, d_to, t_to, comm),                                                    \
       try_alltoallv(from == MPI_IN_PLACE, PART_BY_TYPES(from, n_from, d_from, t_from),                               \
                     PART_BY_TYPES(to, n_to, d_to, t_to), comm))                                                      \
  WRAP(MPI_Reduce##suffix,                                                                                            \
       (const void* from, void* to, Count n, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm),                  \
       (from, to, n, type, op, root, comm), try_reduce(from, to, n, type, op, root, comm))                            \
  WRAP(MPI_Allreduce##suffix, (const void* from, void* to, Count n, MPI_Datatype type, MPI_Op op, MPI_Comm comm),     \
       (from, to, n, type, op, comm), try_allreduce(from, to, n, type, op, comm))                                     \
  WRAP(MPI_Reduce_scatter##suffix,                                                                                    \
       (const void* from, void* to, const Count n[], MPI_Datatype type, MPI_Op op, MPI_Comm comm),                    \
       (from, to, n, type, op, comm),                                                                                 \
       try_reduce_scatter(from, to, [&](int i) -> std::int64_t { return n[i]; }, type, op, comm))                     \
  WRAP(MPI_Reduce_scatter_block##suffix,                                                                              \
       (const void* from, void* to, Count n, MPI_Datatype type, MPI_Op op, MPI_Comm comm),                            \
       (from, to, n, type, op, comm),                                                                                 \
       try_reduce_scatter(from, to, [&](int) -> std::int64_t { return n; }, type, op, comm))                          \
  WRAP(MPI_Scan##suffix, (const void* from, void* to, Count n, MPI_Datatype type, MPI_Op op, MPI_Comm comm),          \
       (from, to, n, type, op, comm), try_scan(from, to, n, type, op, comm, false))                                   \
  WRAP(MPI_Exscan##suffix, (const void* from, void* to, Count n, MPI_Datatype type, MPI_Op op, MPI_Comm comm),        \
       (from, to, n, type, op, comm), try_scan(from, to, n, type, op, comm, true))

WRAP_ALL_COLLECTIVES(, int, int)
#if MPI_VERSION >= 4
WRAP_ALL_COLLECTIVES(_c, MPI_Count, MPI_Aint)
#endif

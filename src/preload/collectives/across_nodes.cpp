#include "preload/collectives/across_nodes.hpp"

#include <climits>

#include "collectives/spanning.hpp"
#include "preload/collectives/in_node.hpp"
#include "preload/collectives/lane.hpp"

namespace nearfield::collectives::across_nodes {
namespace {

bool fits_in_int(std::size_t number) { return number <= INT_MAX; }

// Returns whether the root belongs to a lane, and so has a counterpart on each node.
bool is_root_in_lane(const NodeComm& node, int root) {
  return node.layout().place_of(root).local < node.layout().lanes();
}

}  // namespace

bool barrier(NodeComm& node) {
  if (node.choose_algorithm(Operation::barrier, 0).algorithm != Algorithm::leaders) return false;
  auto& exchange = node.exchange();
  spanning_barrier(exchange, Lane{node.lane_comm()},
                   [&] { run_barrier(exchange, node.choose_algorithm_in_node(Operation::barrier, 0)); });
  return true;
}

bool bcast(NodeComm& node, Bytes* data, std::size_t bytes, int root) {
  if (node.choose_algorithm(Operation::bcast, bytes).algorithm != Algorithm::leaders || !is_root_in_lane(node, root))
    return false;
  const Layout& layout = node.layout();
  spanning_bcast(node.exchange(), Lane{node.lane_comm()}, data, bytes, layout.place_of(root), layout.own_place().node);
  return true;
}

bool reduce(NodeComm& node, const Bytes* send, Bytes* receive, const Reduction<Operator>& reduction, MPI_Datatype type,
            MPI_Op op, int root) {
  const AlgorithmChoice choice = node.choose_algorithm(Operation::reduce, reduction.bytes());
  if (choice.algorithm != Algorithm::leaders || !is_root_in_lane(node, root) || !fits_in_int(reduction.count))
    return false;
  auto& exchange = node.exchange();
  const Layout::RankPlace place = node.layout().place_of(root);
  const bool needs_result_buffer = exchange.rank() == place.local && node.rank() != root;
  const Buffer result_buffer = needs_result_buffer ? allocate_buffer(reduction.bytes()) : nullptr;
  Bytes* const result = needs_result_buffer ? result_buffer.get() : receive;
  spanning_reduce(exchange, Lane{node.lane_comm(), type, op}, result, reduction.count, place, [&] {
    run_reduce(exchange, send, result, reduction, place.local,
               node.choose_algorithm_in_node(Operation::reduce, reduction.bytes()));
  });
  return true;
}

bool allreduce(NodeComm& node, const Bytes* send, Bytes* receive, const Reduction<Operator>& reduction,
               MPI_Datatype type, MPI_Op op) {
  const Algorithm algorithm = node.choose_algorithm(Operation::allreduce, reduction.bytes()).algorithm;
  if (!fits_in_int(reduction.count)) return false;
  auto& exchange = node.exchange();
  const Lane lane{node.lane_comm(), type, op};
  if (algorithm == Algorithm::lanes) {
    spanning_allreduce_by_lanes(exchange, lane, node.layout().lanes(), send, receive, reduction);
    return true;
  }
  if (algorithm != Algorithm::leaders) return false;
  spanning_allreduce_by_leaders(
      exchange, lane, receive, reduction.count,
      [&] {
        run_reduce(exchange, send, receive, reduction, 0,
                   node.choose_algorithm_in_node(Operation::reduce, reduction.bytes()));
      },
      [&] {
        run_bcast(exchange, receive, reduction.bytes(), 0,
                  node.choose_algorithm_in_node(Operation::bcast, reduction.bytes()));
      });
  return true;
}

bool allgather(NodeComm& node, const Bytes* send, Bytes* receive, std::size_t bytes) {
  const Layout& layout = node.layout();
  const std::size_t lane_result_bytes = bytes * static_cast<std::size_t>(layout.nodes());
  const bool uses_lanes = node.choose_algorithm(Operation::allgather, bytes).algorithm == Algorithm::lanes;
  if (!uses_lanes || !layout.is_balanced() || !fits_in_int(bytes)) return false;
  spanning_allgather(node.exchange(), Lane{node.lane_comm()}, layout, send, allocate_buffer(lane_result_bytes).get(),
                     receive, bytes);
  return true;
}

bool alltoall(NodeComm& node, const Bytes* send, Bytes* receive, std::size_t bytes) {
  const Layout& layout = node.layout();
  const bool uses_lanes = node.choose_algorithm(Operation::alltoall, bytes).algorithm == Algorithm::lanes;
  if (!uses_lanes || !layout.is_balanced() || !fits_in_int(bytes * static_cast<std::size_t>(layout.lanes())))
    return false;
  spanning_alltoall(node.exchange(), Lane{node.lane_comm()}, layout, send, receive, bytes);
  return true;
}

}  // namespace nearfield::collectives::across_nodes

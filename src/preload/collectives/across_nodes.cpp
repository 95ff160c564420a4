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
  auto& x = node.exchange();
  spanning_barrier(x, Lane{node.lane()}, [&] { run_barrier(x, node.choose_algorithm_in_node(Operation::barrier, 0)); });
  return true;
}

bool bcast(NodeComm& node, Bytes* data, std::size_t bytes, int root) {
  if (node.choose_algorithm(Operation::bcast, bytes).algorithm != Algorithm::leaders || !is_root_in_lane(node, root))
    return false;
  const Layout& layout = node.layout();
  spanning_bcast(node.exchange(), Lane{node.lane()}, data, bytes, layout.place_of(root), layout.own_place().node);
  return true;
}

bool reduce(NodeComm& node, const Bytes* send, Bytes* receive, const Reduction<Operator>& all, MPI_Datatype type,
            MPI_Op op, int root) {
  const AlgorithmChoice choice = node.choose_algorithm(Operation::reduce, all.bytes());
  if (choice.algorithm != Algorithm::leaders || !is_root_in_lane(node, root) || !fits_in_int(all.count)) return false;
  auto& x = node.exchange();
  const Layout::RankPlace place = node.layout().place_of(root);
  const bool needs_space = x.rank() == place.local && node.rank() != root;
  const Buffer space = needs_space ? allocate_buffer(all.bytes()) : nullptr;
  Bytes* const result = needs_space ? space.get() : receive;
  spanning_reduce(x, Lane{node.lane(), type, op}, result, all.count, place, [&] {
    run_reduce(x, send, result, all, place.local, node.choose_algorithm_in_node(Operation::reduce, all.bytes()));
  });
  return true;
}

bool allreduce(NodeComm& node, const Bytes* send, Bytes* receive, const Reduction<Operator>& all, MPI_Datatype type,
               MPI_Op op) {
  const Algorithm algorithm = node.choose_algorithm(Operation::allreduce, all.bytes()).algorithm;
  if (!fits_in_int(all.count)) return false;
  auto& x = node.exchange();
  const Lane lane{node.lane(), type, op};
  if (algorithm == Algorithm::lanes) {
    spanning_allreduce_by_lanes(x, lane, node.layout().lanes(), send, receive, all);
    return true;
  }
  if (algorithm != Algorithm::leaders) return false;
  spanning_allreduce_by_leaders(
      x, lane, receive, all.count,
      [&] { run_reduce(x, send, receive, all, 0, node.choose_algorithm_in_node(Operation::reduce, all.bytes())); },
      [&] { run_bcast(x, receive, all.bytes(), 0, node.choose_algorithm_in_node(Operation::bcast, all.bytes())); });
  return true;
}

bool allgather(NodeComm& node, const Bytes* send, Bytes* receive, std::size_t bytes) {
  const Layout& layout = node.layout();
  const std::size_t of_lane = bytes * static_cast<std::size_t>(layout.nodes());
  const bool is_chosen = node.choose_algorithm(Operation::allgather, bytes).algorithm == Algorithm::lanes;
  if (!is_chosen || !layout.is_balanced() || !fits_in_int(bytes)) return false;
  spanning_allgather(node.exchange(), Lane{node.lane()}, layout, send, allocate_buffer(of_lane).get(), receive, bytes);
  return true;
}

bool alltoall(NodeComm& node, const Bytes* send, Bytes* receive, std::size_t bytes) {
  const Layout& layout = node.layout();
  const bool is_chosen = node.choose_algorithm(Operation::alltoall, bytes).algorithm == Algorithm::lanes;
  if (!is_chosen || !layout.is_balanced() || !fits_in_int(bytes * static_cast<std::size_t>(layout.lanes())))
    return false;
  spanning_alltoall(node.exchange(), Lane{node.lane()}, layout, send, receive, bytes);
  return true;
}

}  // namespace nearfield::collectives::across_nodes

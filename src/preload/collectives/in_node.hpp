// Runs the algorithm that was selected for a collective among the ranks of one node.
#pragma once

#include "collectives/doubling.hpp"
#include "collectives/grouped.hpp"
#include "preload/collectives/live_port.hpp"
#include "preload/collectives/operators.hpp"
#include "preload/collectives/selection.hpp"

namespace nearfield::collectives {

using LiveExchange = Exchange<LivePort>;
using LiveReduction = Reduction<Operator>;

inline void run_barrier(LiveExchange& x, AlgorithmChoice choice) {
  if (choice.algorithm == Algorithm::grouped) return barrier_in_groups(x, {choice.group});
  if (choice.algorithm == Algorithm::doubling) return barrier_by_dissemination(x);
  barrier(x);
}

inline void run_bcast(LiveExchange& x, Bytes* data, std::size_t bytes, int root, AlgorithmChoice choice) {
  if (choice.algorithm == Algorithm::slices) return bcast_in_slices(x, data, bytes, root);
  if (choice.algorithm == Algorithm::grouped) return bcast_in_groups(x, data, bytes, root, {choice.group});
  bcast(x, data, bytes, root);
}

inline void run_reduce(LiveExchange& x, const Bytes* data, Bytes* receive, const LiveReduction& all, int root,
                       AlgorithmChoice choice) {
  if (choice.algorithm == Algorithm::doubling && all.bytes() <= slot_bytes)
    return reduce_by_doubling(x, data, receive, all, root);
  reduce(x, data, receive, all, root);
}

inline void run_allreduce(LiveExchange& x, const Bytes* data, Bytes* receive, const LiveReduction& all,
                          AlgorithmChoice choice) {
  switch (choice.algorithm) {
    case Algorithm::whole:
      return allreduce_whole(x, data, receive, all);
    case Algorithm::slices:
      return allreduce_in_slices(x, data, receive, all);
    case Algorithm::doubling:
      if (all.bytes() <= slot_bytes) return allreduce_by_doubling(x, data, receive, all);
      return allreduce_in_slices(x, data, receive, all);
    case Algorithm::grouped:
      return allreduce_in_groups(x, data, receive, all, {choice.group});
    default:
      return allreduce(x, data, receive, all);
  }
}

}  // namespace nearfield::collectives

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

inline void run_barrier(LiveExchange& exchange, AlgorithmChoice choice) {
  if (choice.algorithm == Algorithm::grouped) return barrier_in_groups(exchange, {choice.ranks_per_group});
  if (choice.algorithm == Algorithm::doubling) return barrier_by_dissemination(exchange);
  barrier(exchange);
}

inline void run_bcast(LiveExchange& exchange, Bytes* data, std::size_t bytes, int root, AlgorithmChoice choice) {
  if (choice.algorithm == Algorithm::slices) return bcast_in_slices(exchange, data, bytes, root);
  if (choice.algorithm == Algorithm::grouped)
    return bcast_in_groups(exchange, data, bytes, root, {choice.ranks_per_group});
  bcast(exchange, data, bytes, root);
}

inline void run_reduce(LiveExchange& exchange, const Bytes* data, Bytes* receive, const LiveReduction& reduction,
                       int root, AlgorithmChoice choice) {
  if (choice.algorithm == Algorithm::doubling && reduction.bytes() <= slot_bytes)
    return reduce_by_doubling(exchange, data, receive, reduction, root);
  reduce(exchange, data, receive, reduction, root);
}

inline void run_allreduce(LiveExchange& exchange, const Bytes* data, Bytes* receive, const LiveReduction& reduction,
                          AlgorithmChoice choice) {
  switch (choice.algorithm) {
    case Algorithm::whole:
      return allreduce_whole(exchange, data, receive, reduction);
    case Algorithm::slices:
      return allreduce_in_slices(exchange, data, receive, reduction);
    case Algorithm::doubling:
      if (reduction.bytes() <= slot_bytes) return allreduce_by_doubling(exchange, data, receive, reduction);
      return allreduce_in_slices(exchange, data, receive, reduction);
    case Algorithm::grouped:
      return allreduce_in_groups(exchange, data, receive, reduction, {choice.ranks_per_group});
    default:
      return allreduce(exchange, data, receive, reduction);
  }
}

inline void run_allgather(LiveExchange& exchange, const Bytes* send, Bytes* receive, std::size_t bytes,
                          AlgorithmChoice choice) {
  if (choice.algorithm == Algorithm::doubling && bytes <= max_doubling_block_bytes(exchange.ranks()))
    return allgather_by_doubling(exchange, send, receive, bytes);
  allgather(exchange, send, bytes,
            [&](int rank) { return std::pair(receive + static_cast<std::size_t>(rank) * bytes, bytes); });
}

inline void run_alltoall(LiveExchange& exchange, const Bytes* send, Bytes* receive, std::size_t bytes,
                         AlgorithmChoice choice) {
  if (choice.algorithm == Algorithm::doubling && bytes <= max_doubling_block_bytes(exchange.ranks()))
    return alltoall_by_doubling(exchange, send, receive, bytes);
  alltoall(exchange, send, receive, bytes);
}

}  // namespace nearfield::collectives

#include <algorithm>
#include <utility>

#include "halo/grid.hpp"

namespace nearfield::halo {

// Times a few exchanges by each protocol that works on this grid. The time of a protocol is its fastest batch, on its
// slowest rank.
std::unique_ptr<HaloExchange> Grid::make_fastest_exchange(const ExchangePlan& plan) {
  constexpr int num_batches = 7, num_exchanges = 5;
  std::unique_ptr<HaloExchange> best;
  double best_time_s = 0;
  for (const auto* spec : all_protocols()) {
    if (spec->reads_in_place || spec->needs_arrays || (spec->is_intra_node_only && !protocol_spec_->is_intra_node_only))
      continue;
    if (spec->unavailability_reason && !spec->unavailability_reason(*node_).empty()) continue;
    auto candidate = std::make_unique<HaloExchange>(plan, *spec, *this, false);
    double batch_time_s = 1e9;
    for (int batch = 0; batch < num_batches; ++batch) {
      const double begin_s = MPI_Wtime();
      for (int i = 0; i < num_exchanges; ++i) {
        start(candidate.get());
        finish();
      }
      batch_time_s = std::min(batch_time_s, MPI_Wtime() - begin_s);
    }
    MPI_Allreduce(MPI_IN_PLACE, &batch_time_s, 1, MPI_DOUBLE, MPI_MAX, node_->comm);
    if (best && batch_time_s >= best_time_s) continue;
    best = std::move(candidate);
    best_time_s = batch_time_s;
  }
  return best;
}

}  // namespace nearfield::halo

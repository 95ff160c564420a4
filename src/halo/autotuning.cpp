#include <algorithm>
#include <utility>

#include "halo/grid.hpp"

namespace nearfield::halo {

// Times a few exchanges by each protocol that works on this grid. The time of a protocol is its fastest batch, on its
// slowest rank.
std::unique_ptr<HaloExchange> Grid::make_fastest_exchange(const ExchangePlan& move) {
  constexpr int batches = 7, exchanges = 5;
  std::unique_ptr<HaloExchange> best;
  double best_time = 0;
  for (const auto* spec : all_protocols()) {
    if (spec->in_place || spec->needs_arrays || (spec->shared_only && !spec_->shared_only)) continue;
    if (spec->problem && !spec->problem(*node_).empty()) continue;
    auto tried = std::make_unique<HaloExchange>(move, *spec, *this, false);
    double time = 1e9;
    for (int batch = 0; batch < batches; ++batch) {
      const double begin_s = MPI_Wtime();
      for (int i = 0; i < exchanges; ++i) {
        start(tried.get());
        finish();
      }
      time = std::min(time, MPI_Wtime() - begin_s);
    }
    MPI_Allreduce(MPI_IN_PLACE, &time, 1, MPI_DOUBLE, MPI_MAX, node_->comm);
    if (best && time >= best_time) continue;
    best = std::move(tried);
    best_time = time;
  }
  return best;
}

}  // namespace nearfield::halo

// Finds the fastest protocol for the caller's arrays by trying each here and now.
#pragma once

#include <memory>

#include "halo/grid.hpp"

namespace nearfield::halo {

/// Exchanges a few times by each protocol that works on this grid. Returns the exchange by the one that was fastest on
/// its slowest rank. Collective; not between start and finish.
std::unique_ptr<Exchange> fastest(Grid& grid, const Move& move);

}  // namespace nearfield::halo

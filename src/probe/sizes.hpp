// Which message sizes a tier measures.
#pragma once

#include <cstdint>
#include <vector>

#include "probe/context.hpp"

namespace nearfield::probe {

/// Sizes from `smallest` to `largest` bytes for the plan's tier, ascending: the user's own if given; otherwise
/// powers of two (quick: coarser below 1 KiB and above the last-level cache; full: also 1.5 x each).
std::vector<std::int64_t> size_ladder(const Context& ctx, std::int64_t smallest, std::int64_t largest);

/// The same with points on both sides of every protocol switch, to the byte and a quarter away.
std::vector<std::int64_t> dense_size_ladder(const Context& ctx, std::int64_t smallest, std::int64_t largest);

}  // namespace nearfield::probe

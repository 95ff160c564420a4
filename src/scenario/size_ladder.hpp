// Chooses the message sizes of a tier (quick, default or full), for measurements and simulations.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace nearfield {

struct SizeChoice {
  std::string tier;                 // quick, default or full
  std::vector<std::int64_t> sizes;  // sizes that the user requests, instead of the tier's
  std::int64_t llc_bytes = 0;
  std::int64_t max_bytes = std::numeric_limits<std::int64_t>::max();  // upper limit of the tier
};

/// Returns the largest message size of a tier. Without this limit, on machines with a very large last-level cache (some
/// have more than 1 GiB), one message of four times the size of the cache would take as long as all others.
constexpr std::int64_t max_tier_bytes(std::string_view tier) {
  if (tier == "quick") return std::int64_t{128} << 20;
  if (tier == "default") return std::int64_t{512} << 20;
  return std::numeric_limits<std::int64_t>::max();
}

/// Returns sizes from `smallest` to `largest` bytes, ascending: those that the user requests, if any; otherwise powers
/// of two (quick: coarser below 1 KiB and above a quarter of the last-level cache; full: also 1.5 x each), and
/// `largest`.
std::vector<std::int64_t> size_ladder(const SizeChoice& choice, std::int64_t smallest, std::int64_t largest);

/// Returns the sizes of size_ladder(), and for every protocol switch s the sizes s, s + 1, and s minus and plus a
/// quarter. `switches`: the largest size before each switch.
std::vector<std::int64_t> dense_size_ladder(const SizeChoice& choice, const std::vector<std::int64_t>& switches,
                                            std::int64_t smallest, std::int64_t largest);

}  // namespace nearfield

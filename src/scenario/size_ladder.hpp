// Chooses the message sizes of a tier, measured or simulated.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace nearfield {

struct SizeChoice {
  std::string tier;                 // quick, default or full
  std::vector<std::int64_t> sizes;  // the user's own, instead of the tier's
  std::int64_t llc_bytes = 0;
  std::int64_t max_bytes = std::numeric_limits<std::int64_t>::max();  // upper limit of the tier
};

/// Returns the largest size of a tier on machines with a very large last-level cache (some have more than 1 GiB): one
/// message of four times that size would take as long as all others.
constexpr std::int64_t max_bytes_of(std::string_view tier) {
  if (tier == "quick") return std::int64_t{128} << 20;
  if (tier == "default") return std::int64_t{512} << 20;
  return std::numeric_limits<std::int64_t>::max();
}

/// Returns sizes from `smallest` to `largest` bytes, ascending: the user's own if given; otherwise powers of two
/// (quick: coarser below 1 KiB and above a quarter of the last-level cache; full: also 1.5 x each), and `largest`.
std::vector<std::int64_t> size_ladder(const SizeChoice& choice, std::int64_t smallest, std::int64_t largest);

/// Returns these sizes with points on both sides of every protocol switch, one byte and a quarter away. A switch is
/// given as the largest size before it.
std::vector<std::int64_t> dense_size_ladder(const SizeChoice& choice, const std::vector<std::int64_t>& switches,
                                            std::int64_t smallest, std::int64_t largest);

}  // namespace nearfield

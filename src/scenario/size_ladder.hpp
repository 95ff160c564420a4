// Chooses the message sizes of measurements and simulations. A tier (quick, default or full) determines how many.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace nearfield {

struct SizeChoice {
  std::string tier;                 // quick, default or full
  std::vector<std::int64_t> sizes;  // sizes that the user requests; empty: the tier's sizes
  std::int64_t llc_bytes = 0;
  std::int64_t max_message_bytes = std::numeric_limits<std::int64_t>::max();  // upper limit of the tier
};

/// Returns the largest message size of a tier in bytes. Without this limit, on machines with a very large last-level
/// cache (some have more than 1 GiB), a message of four times the size of the cache would take as long as all others.
constexpr std::int64_t max_message_bytes_of_tier(std::string_view tier) {
  if (tier == "quick") return std::int64_t{128} << 20;
  if (tier == "default") return std::int64_t{512} << 20;
  return std::numeric_limits<std::int64_t>::max();
}

/// Returns the sizes that the user requests, if any. Otherwise returns, in ascending order, `largest` and the powers of
/// two from `smallest` to `largest` bytes (quick: fewer below 1 KiB and above a quarter of the last-level cache; full:
/// also 1.5 times each power).
std::vector<std::int64_t> size_ladder(const SizeChoice& choice, std::int64_t smallest, std::int64_t largest);

/// Returns the sizes of size_ladder(), and for every element s of `protocol_switch_bytes` also s, s + 1, 0.75 s and
/// 1.25 s. An element is the largest size below a protocol switch.
std::vector<std::int64_t> dense_size_ladder(const SizeChoice& choice,
                                            const std::vector<std::int64_t>& protocol_switch_bytes,
                                            std::int64_t smallest, std::int64_t largest);

}  // namespace nearfield

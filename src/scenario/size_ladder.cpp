#include "scenario/size_ladder.hpp"

#include <algorithm>
#include <set>

namespace nearfield {
namespace {

bool is_in_quick_tier(const SizeChoice& choice, int exponent) {
  const std::int64_t size = std::int64_t{1} << exponent;
  if (size < 1024) return exponent % 3 == 0;
  return size <= choice.llc_bytes / 4 || exponent % 2 == 0;
}

}  // namespace

std::vector<std::int64_t> size_ladder(const SizeChoice& choice, std::int64_t smallest, std::int64_t largest) {
  if (!choice.sizes.empty()) return choice.sizes;
  largest = std::min(largest, choice.max_message_bytes);
  std::set<std::int64_t> sizes;
  for (int exponent = 0; exponent < 62 && (std::int64_t{1} << exponent) <= largest; ++exponent) {
    const std::int64_t size = std::int64_t{1} << exponent;
    if (choice.tier != "quick" || is_in_quick_tier(choice, exponent)) sizes.insert(size);
    if (choice.tier == "full" && size >= 2) sizes.insert(size + size / 2);
  }
  sizes.insert(largest);
  sizes.erase(sizes.begin(), sizes.lower_bound(smallest));
  sizes.erase(sizes.upper_bound(largest), sizes.end());
  return {sizes.begin(), sizes.end()};
}

std::vector<std::int64_t> dense_size_ladder(const SizeChoice& choice,
                                            const std::vector<std::int64_t>& protocol_switch_bytes,
                                            std::int64_t smallest, std::int64_t largest) {
  const auto sparse_sizes = size_ladder(choice, smallest, largest);
  if (!choice.sizes.empty()) return sparse_sizes;
  std::set<std::int64_t> sizes(sparse_sizes.begin(), sparse_sizes.end());
  for (const std::int64_t s : protocol_switch_bytes)
    for (const std::int64_t size : {s - s / 4, s, s + 1, s + s / 4})
      if (size >= smallest && size <= std::min(largest, choice.max_message_bytes)) sizes.insert(size);
  return {sizes.begin(), sizes.end()};
}

}  // namespace nearfield

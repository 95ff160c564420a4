#include "probe/sizes.hpp"

#include <algorithm>
#include <set>

namespace nearfield::probe {
namespace {

bool in_quick(const Context& ctx, int exponent) {
  const std::int64_t size = std::int64_t{1} << exponent;
  if (size < 1024) return exponent % 3 == 0;
  return size <= ctx.plan.llc_bytes() / 4 || exponent % 2 == 0;
}

}  // namespace

std::vector<std::int64_t> size_ladder(const Context& ctx, std::int64_t smallest, std::int64_t largest) {
  if (!ctx.plan.sizes.empty()) return ctx.plan.sizes;
  std::set<std::int64_t> sizes;
  for (int exponent = 0; exponent < 62 && (std::int64_t{1} << exponent) <= largest; ++exponent) {
    const std::int64_t size = std::int64_t{1} << exponent;
    if (ctx.plan.tier != "quick" || in_quick(ctx, exponent)) sizes.insert(size);
    if (ctx.plan.tier == "full" && size >= 2) sizes.insert(size + size / 2);
  }
  sizes.insert(largest);
  sizes.erase(sizes.begin(), sizes.lower_bound(smallest));
  sizes.erase(sizes.upper_bound(largest), sizes.end());
  return {sizes.begin(), sizes.end()};
}

std::vector<std::int64_t> dense_size_ladder(const Context& ctx, std::int64_t smallest, std::int64_t largest) {
  const auto plain = size_ladder(ctx, smallest, largest);
  if (!ctx.plan.sizes.empty()) return plain;
  std::set<std::int64_t> sizes(plain.begin(), plain.end());
  for (const auto& change : ctx.switches) {
    const std::int64_t s = change.size_bytes;
    for (const std::int64_t size : {s - s / 4, s, s + 1, s + s / 4})
      if (size >= smallest && size <= largest) sizes.insert(size);
  }
  return {sizes.begin(), sizes.end()};
}

}  // namespace nearfield::probe

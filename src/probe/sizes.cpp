#include "probe/sizes.hpp"

#include "base/size_ladder.hpp"

namespace nearfield::probe {
namespace {

SizeChoice choice(const Context& ctx) { return {ctx.plan.tier, ctx.plan.sizes, ctx.plan.llc_bytes()}; }

}  // namespace

std::vector<std::int64_t> size_ladder(const Context& ctx, std::int64_t smallest, std::int64_t largest) {
  return nearfield::size_ladder(choice(ctx), smallest, largest);
}

std::vector<std::int64_t> dense_size_ladder(const Context& ctx, std::int64_t smallest, std::int64_t largest) {
  std::vector<std::int64_t> switches;
  for (const auto& change : ctx.switches) switches.push_back(change.size_bytes);
  return nearfield::dense_size_ladder(choice(ctx), switches, smallest, largest);
}

}  // namespace nearfield::probe

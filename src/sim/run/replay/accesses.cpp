#include "sim/run/replay/accesses.hpp"

#include <algorithm>

#include "machine/machine.hpp"
#include "sim/memory/address_space.hpp"
#include "sim/mpi/endpoint.hpp"

namespace nearfield::sim::replay {
namespace {

constexpr std::size_t in_flight = 64;            // accesses whose issue overlaps with the arithmetic between them
constexpr std::uint64_t batches_to_notice = 64;  // between two calls of the progress callback

}  // namespace

Task<> AccessReplay::replay_to_event(bool timed, PollingDetector& polling) {
  while (const std::size_t count = source_.accesses(batch_)) {
    if (++batches_ % batches_to_notice == 0) rank_.endpoint().cluster().run_progress_callback();
    polling.add_accesses(count);
    if (!timed) {
      skipped_ += count;
      continue;
    }
    replayed_ += count;
    folded_.clear();
    for (std::size_t i = 0; i < count; ++i) add_folded(batch_[i]);
    co_await rank_.replay(folded_);
    if (const Ps longer = arithmetic_excess(std::span(batch_).first(count)); longer > 0) rank_.compute(longer);
  }
}

// Returns the time by which the arithmetic of these accesses exceeds their issue time.
Ps AccessReplay::arithmetic_excess(std::span<const stream::Reference> accesses) {
  if (!flops_of_site_) return 0;
  const Core& core = rank_.core();
  double cycles = 0;
  while (!accesses.empty()) {
    const auto some = accesses.first(std::min(in_flight, accesses.size()));
    double flops = 0;
    for (const auto& access : some) {
      while (site_flops_.size() <= access.site)
        site_flops_.push_back(flops_of_site_(static_cast<std::uint32_t>(site_flops_.size())));
      flops += site_flops_[access.site];
    }
    flops_ += flops;
    if (core.flops_per_cycle > 0)
      cycles += std::max(0.0, flops / core.flops_per_cycle - static_cast<double>(some.size()) * core.cycles_per_access);
    accesses = accesses.subspan(some.size());
  }
  return cycles / core.clock_ghz * 1e3;
}

void AccessReplay::add_folded(const stream::Reference& access) {
  const Access kind = access.store ? Access::store : Access::load;
  std::uint64_t address = access.address;
  std::uint32_t bytes = access.bytes;
  while (bytes > space_.bytes_to_region_end(address)) [[unlikely]] {
    const auto part = static_cast<std::uint32_t>(space_.bytes_to_region_end(address));
    folded_.push_back({space_.to_node_address(address), part, kind});
    address += part;
    bytes -= part;
  }
  folded_.push_back({space_.to_node_address(address), bytes, kind});
}

}  // namespace nearfield::sim::replay

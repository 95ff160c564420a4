#include "sim/run/replay/accesses.hpp"

#include <algorithm>

#include "machine/machine.hpp"
#include "sim/memory/address_space.hpp"
#include "sim/mpi/endpoint.hpp"

namespace nearfield::sim::replay {
namespace {

constexpr std::size_t in_flight = 64;            // accesses whose issue overlaps with the arithmetic between them
constexpr std::uint64_t batches_to_notice = 64;  // between two calls of the progress callback
constexpr std::size_t condition_accesses = 4;    // a condition depends on a load among these before the branch
constexpr std::size_t element_accesses = 8;      // the accesses to an element of a list that may precede its chain load

Access kind_of(const stream::Reference& access) {
  if (access.store) return Access::store;
  switch (access.role) {
    case stream::LoadRole::index:
      return Access::index;
    case stream::LoadRole::gather:
      return Access::gather;
    default:
      return Access::load;
  }
}

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
    mispredicted_ = 0;
    const bool branches_take_time = rank_.core().mispredict_cycles > 0;
    for (std::size_t i = 0; i < count; ++i) {
      if (branches_take_time && branches_.passes(batch_[i].site)) wait_for_condition();
      add_folded(batch_[i]);
    }
    if (first_reads_ && first_reads_->has_unread())
      co_await replay_with_first_reads();
    else
      co_await rank_.replay(folded_);
    const double lost = static_cast<double>(mispredicted_) * rank_.core().mispredict_cycles;
    const Ps longer = arithmetic_excess(std::span(batch_).first(count)) + lost / rank_.core().clock_ghz * 1e3;
    if (longer > 0) rank_.compute(longer);
  }
}

// Replays the batch, and records when the program reads lines of received data for the first time.
Task<> AccessReplay::replay_with_first_reads() {
  std::vector<std::size_t> loads;  // numbers of the accesses that read the `lines`
  std::vector<UnreadLine> lines;
  for (std::size_t i = 0; i < folded_.size(); ++i) {
    const Reference& access = folded_[i];
    while (const auto line = first_reads_->take_line(access.address, access.bytes)) {
      if (access.kind == Access::store) continue;
      loads.push_back(i);
      lines.push_back(*line);
    }
  }
  std::size_t next = 0;
  co_await rank_.replay(folded_, loads,
                        [&] { first_reads_->record_read(lines[next++], rank_.endpoint().ordering_clock()); });
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
  const Access kind = kind_of(access);
  std::uint64_t address = access.address;
  std::uint32_t bytes = access.bytes;
  while (bytes > space_.bytes_to_region_end(address)) [[unlikely]] {
    const auto part = static_cast<std::uint32_t>(space_.bytes_to_region_end(address));
    folded_.push_back({space_.to_node_address(address), part, kind});
    address += part;
    bytes -= part;
  }
  const Reference last{space_.to_node_address(address), bytes, kind};
  if (access.role == stream::LoadRole::chain)
    add_chain_load(last);
  else
    folded_.push_back(last);
}

// The core has mispredicted a branch: it goes on when the data of the last load, if that is recent, has arrived.
void AccessReplay::wait_for_condition() {
  ++mispredicted_;
  const std::size_t first = folded_.size() - std::min(folded_.size(), condition_accesses);
  for (std::size_t i = folded_.size(); i > first; --i) {
    if (folded_[i - 1].kind == Access::store) continue;
    folded_[i - 1].kind = Access::chase;
    return;
  }
}

// Appends a load of a chain, for whose data the core waits. If an earlier access to the same element loaded the line,
// the core waits in that access, since the data of both arrive together.
void AccessReplay::add_chain_load(const Reference& load) {
  const auto line = static_cast<Address>(rank_.endpoint().cluster().machine.caches.front().line_bytes);
  const std::size_t first = folded_.size() - std::min(folded_.size(), element_accesses);
  for (std::size_t i = folded_.size(); i > first; --i) {
    Reference& before = folded_[i - 1];
    if (before.kind == Access::chase) break;
    if (before.kind == Access::store || before.address / line != load.address / line) continue;
    before.kind = Access::chase;
    folded_.push_back(load);
    return;
  }
  folded_.push_back({load.address, load.bytes, Access::chase});
}

}  // namespace nearfield::sim::replay

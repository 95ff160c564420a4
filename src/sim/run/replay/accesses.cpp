#include "sim/run/replay/accesses.hpp"

#include <algorithm>

#include "machine/machine.hpp"
#include "sim/memory/address_space.hpp"
#include "sim/mpi/endpoint.hpp"

namespace nearfield::sim::replay {
namespace {

constexpr std::size_t overlapping_accesses = 64;    // accesses whose issue overlaps with the arithmetic between them
constexpr std::uint64_t batches_per_callback = 64;  // between two calls of the progress callback
constexpr std::size_t condition_accesses = 4;       // a condition depends on a load among these before the branch
constexpr std::size_t element_accesses = 8;  // the accesses to an element of a list that may precede its chain load

Access access_kind_of(const stream::Reference& access) {
  if (access.is_store) return Access::store;
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

Task<> AccessReplay::replay_to_event(bool is_timed, PollingDetector& polling) {
  while (const std::size_t count = source_.read_accesses(access_batch_)) {
    if (++num_batches_ % batches_per_callback == 0) rank_.endpoint().cluster().run_progress_callback();
    polling.add_accesses(count);
    if (!is_timed) {
      num_skipped_ += count;
      continue;
    }
    num_replayed_ += count;
    node_references_.clear();
    num_mispredicted_ = 0;
    const bool branches_take_time = rank_.core().mispredict_cycles > 0;
    for (std::size_t i = 0; i < count; ++i) {
      if (branches_take_time && branch_predictor_.is_mispredicted(access_batch_[i].site)) wait_for_condition();
      add_node_references(access_batch_[i]);
    }
    if (first_reads_ && first_reads_->has_unread_lines())
      co_await replay_with_first_reads();
    else
      co_await rank_.replay(node_references_);
    const double lost_cycles = static_cast<double>(num_mispredicted_) * rank_.core().mispredict_cycles;
    const Ps extra_time =
        arithmetic_excess(std::span(access_batch_).first(count)) + lost_cycles / rank_.core().clock_ghz * 1e3;
    if (extra_time > 0) rank_.compute(extra_time);
  }
}

// Replays the batch, and records when the program reads lines of received data for the first time.
Task<> AccessReplay::replay_with_first_reads() {
  std::vector<std::size_t> loads;  // numbers of the accesses that read the `lines`
  std::vector<UnreadLine> lines;
  for (std::size_t i = 0; i < node_references_.size(); ++i) {
    const Reference& access = node_references_[i];
    while (const auto line = first_reads_->take_unread_line(access.address, access.bytes)) {
      if (access.kind == Access::store) continue;
      loads.push_back(i);
      lines.push_back(*line);
    }
  }
  std::size_t next = 0;
  co_await rank_.replay(node_references_, loads,
                        [&] { first_reads_->record_read(lines[next++], rank_.endpoint().ordering_clock()); });
}

// Returns the time by which the arithmetic of these accesses exceeds their issue time.
Ps AccessReplay::arithmetic_excess(std::span<const stream::Reference> accesses) {
  if (!flops_of_site_) return 0;
  const Core& core = rank_.core();
  double cycles = 0;
  while (!accesses.empty()) {
    const auto group = accesses.first(std::min(overlapping_accesses, accesses.size()));
    double flops = 0;
    for (const auto& access : group) {
      while (flops_by_site_.size() <= access.site)
        flops_by_site_.push_back(flops_of_site_(static_cast<std::uint32_t>(flops_by_site_.size())));
      flops += flops_by_site_[access.site];
    }
    replayed_flops_ += flops;
    if (core.flops_per_cycle > 0)
      cycles +=
          std::max(0.0, flops / core.flops_per_cycle - static_cast<double>(group.size()) * core.cycles_per_access);
    accesses = accesses.subspan(group.size());
  }
  return cycles / core.clock_ghz * 1e3;
}

void AccessReplay::add_node_references(const stream::Reference& access) {
  const Access kind = access_kind_of(access);
  std::uint64_t address = access.address;
  std::uint32_t bytes = access.bytes;
  while (bytes > space_.bytes_to_region_end(address)) [[unlikely]] {
    const auto part = static_cast<std::uint32_t>(space_.bytes_to_region_end(address));
    node_references_.push_back({space_.to_node_address(address), part, kind});
    address += part;
    bytes -= part;
  }
  const Reference last{space_.to_node_address(address), bytes, kind};
  if (access.role == stream::LoadRole::chain)
    add_chain_load(last);
  else
    node_references_.push_back(last);
}

// Simulates a mispredicted branch: the core continues when the data of the last load has arrived, if that load is one
// of the last condition_accesses accesses.
void AccessReplay::wait_for_condition() {
  ++num_mispredicted_;
  const std::size_t first = node_references_.size() - std::min(node_references_.size(), condition_accesses);
  for (std::size_t i = node_references_.size(); i > first; --i) {
    if (node_references_[i - 1].kind == Access::store) continue;
    node_references_[i - 1].kind = Access::chase;
    return;
  }
}

// Appends a load of a chain, for whose data the core waits. If an earlier access to the same element loaded the line,
// the core waits in that access, since the data of both arrive together.
void AccessReplay::add_chain_load(const Reference& load) {
  const auto line = static_cast<Address>(rank_.endpoint().cluster().machine.caches.front().line_bytes);
  const std::size_t first = node_references_.size() - std::min(node_references_.size(), element_accesses);
  for (std::size_t i = node_references_.size(); i > first; --i) {
    Reference& earlier_load = node_references_[i - 1];
    if (earlier_load.kind == Access::chase) break;
    if (earlier_load.kind == Access::store || earlier_load.address / line != load.address / line) continue;
    earlier_load.kind = Access::chase;
    node_references_.push_back(load);
    return;
  }
  node_references_.push_back({load.address, load.bytes, Access::chase});
}

}  // namespace nearfield::sim::replay

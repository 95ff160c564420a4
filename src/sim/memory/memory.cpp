#include "sim/memory/memory.hpp"

#include <stdexcept>

#include "sim/memory/hierarchy.hpp"
#include "sim/memory/prefetcher.hpp"
#include "sim/memory/timing.hpp"
#include "sim/memory/tlb.hpp"

namespace nearfield::sim {
namespace {

constexpr Address end_of_memory = Address{1} << 37;
constexpr std::uint64_t word_bytes = 8;
constexpr std::size_t ahead_on_host = 8;  // references of a trace whose sets the host fetches early

bool is_store(Access kind) { return kind == Access::store; }
bool is_bypass(Access kind) { return kind == Access::load_bypass || kind == Access::store_bypass; }

const Machine& checked(const Machine& machine) {
  if (machine.cores < 1) throw std::invalid_argument("a machine needs a core");
  if (machine.core.clock_ghz <= 0) throw std::invalid_argument("core.clock_ghz must be positive");
  return machine;
}

}  // namespace

Memory::Memory(const Machine& machine, const std::array<double, lanes>& memory_slowdown)
    : hierarchy_(std::make_unique<Hierarchy>(checked(machine))),
      timing_(std::make_unique<Timing>(machine, memory_slowdown)),
      translation_(std::make_unique<Translation>(machine, counts_of_tlbs_.tlbs, counts_of_tlbs_.page_faults)),
      translates_(!machine.pages.tlbs.empty()) {
  if (machine.prefetcher)
    followers_.assign(static_cast<std::size_t>(machine.cores),
                      StreamFollower(*machine.prefetcher, hierarchy_->unit_bytes()));
}

Memory::~Memory() = default;

// ---- cores

// `times` accesses to one line of the nearest cache.
inline void Memory::one(int core, Access kind, Address address, Count times) {
  if (translates_) {
    if (const Ps cost = translation_->cost(core, address); cost > 0) timing_->advance(core, cost);
    translation_->repeat(times - 1);
  }
  const auto found = is_store(kind) ? hierarchy_->store(core, address) : hierarchy_->load(core, address);
  if (found.level == 0) {
    if (!followers_.empty()) timing_->wait_for_prefetched(core, address & ~(hierarchy_->unit_bytes() - 1));
    if (kind == Access::chase)
      timing_->chase_hit(core);
    else
      timing_->hits(core, 1);
  } else {
    timing_->missed(core, kind, found, address, hierarchy_->take_traffic());
    if (!followers_.empty()) look_ahead(core, address, found);
  }
  if (times == 1) return;
  hierarchy_->repeat(core, is_store(kind), address, times - 1);
  if (kind == Access::chase)
    for (Count i = 1; i < times; ++i) timing_->chase_hit(core);
  else
    timing_->hits(core, times - 1);
}

void Memory::look_ahead(int core, Address address, const Found& found) {
  const auto unit = hierarchy_->unit_bytes();
  if (found.level < hierarchy_->levels()) timing_->wait_for_prefetched(core, address & ~(unit - 1));
  auto& follower = followers_[static_cast<std::size_t>(core)];
  const auto next = follower.follow(address);
  if (!next || *next >= end_of_memory) return;
  const auto level = hierarchy_->prefetch(core, follower.level(), *next);
  if (level >= 0) timing_->prefetched(core, *next, {level, false}, hierarchy_->take_traffic());
}

void Memory::bypass(int core, Access kind, Address address, unsigned bytes) {
  hierarchy_->flush(address);
  auto& dram = hierarchy_->dram_counts();
  ++(kind == Access::load_bypass ? dram.bypass_reads : dram.bypass_writes);
  dram.bytes += bytes;
  timing_->bypassed(core, address, bytes, hierarchy_->take_traffic());
}

void Memory::access(int core, Access kind, Address address, unsigned bytes) {
  if (kind < Access::load_bypass &&
      ((address ^ (address + bytes - 1)) & ~(hierarchy_->nearest_line_bytes() - 1)) == 0 && address < end_of_memory)
      [[likely]]
    return one(core, kind, address, 1);
  if (address + bytes > end_of_memory || bytes == 0) throw std::out_of_range("a simulated node has 128 GiB");
  const auto line = hierarchy_->nearest_line_bytes();
  const Address end = address + bytes;
  for (Address next; address < end; address = next) {
    next = std::min((address & ~(line - 1)) + line, end);
    if (is_bypass(kind))
      bypass(core, kind, address, static_cast<unsigned>(next - address));
    else
      one(core, kind, address, 1);
  }
}

void Memory::sweep(int core, Access kind, Address address, std::uint64_t count, std::int64_t stride_bytes,
                   unsigned bytes) {
  if (count == 0) return;
  const auto line = hierarchy_->nearest_line_bytes();
  const auto stride = static_cast<std::uint64_t>(stride_bytes);
  const bool together = !is_bypass(kind) && stride_bytes > 0 && stride <= line / 2 && stride % bytes == 0 &&
                        address % bytes == 0 && line % bytes == 0;
  if (!together) {
    for (; count > 0; --count, address += stride) access(core, kind, address, bytes);
    return;
  }
  if (address + count * stride > end_of_memory) throw std::out_of_range("a simulated node has 128 GiB");
  while (count > 0) {
    const auto rest = (address | (line - 1)) - address;  // bytes of this line beyond the first one accessed
    const auto here = std::min(count, rest / stride + 1);
    one(core, kind, address, here);
    count -= here;
    address += here * stride;
  }
}

void Memory::copy(int core, Address to, Address from, std::uint64_t bytes) {
  // A line at a time, as the loads of a copying loop run ahead of its stores.
  const auto line = hierarchy_->nearest_line_bytes();
  for (std::uint64_t done = 0; done < bytes;) {
    const auto here = std::min(line, bytes - done);
    const auto words = here / word_bytes, rest = here % word_bytes;
    for (const auto kind : {Access::load, Access::store}) {
      const Address at = (kind == Access::load ? from : to) + done;
      sweep(core, kind, at, words, word_bytes, word_bytes);
      sweep(core, kind, at + words * word_bytes, rest, 1, 1);
    }
    done += here;
  }
}

void Memory::replay(int core, std::span<const Reference> trace) {
  for (std::size_t i = 0; i < trace.size(); ++i) {
    if (i + ahead_on_host < trace.size()) hierarchy_->fetch_early(core, trace[i + ahead_on_host].address);
    access(core, trace[i].kind, trace[i].address, trace[i].bytes);
  }
}

// ---- devices

template <class Function>
void Memory::for_each_unit(Address address, std::uint64_t bytes, Function&& function) {
  const auto unit = hierarchy_->unit_bytes();
  const Address end = address + bytes;
  for (Address next; address < end; address = next) {
    next = std::min((address & ~(unit - 1)) + unit, end);
    function(address, next - address);
  }
}

Times Memory::dma_write(Address address, std::uint64_t bytes, const Placement& placement, const Times& start) {
  Times done = start;
  for_each_unit(address, bytes, [&](Address at, std::uint64_t part) {
    const auto unit = at & ~(hierarchy_->unit_bytes() - 1);
    if (part == hierarchy_->unit_bytes())
      hierarchy_->dma_write_whole(unit, placement);
    else
      hierarchy_->dma_write_part(unit);
    const auto traffic = hierarchy_->take_traffic();
    if (traffic.writes > 0)
      timing_->dram().post(at, static_cast<std::uint64_t>(traffic.writes) * hierarchy_->unit_bytes());
    done = timing_->dram().pass(at, part, done);
  });
  return done;
}

Times Memory::dma_read(Address address, std::uint64_t bytes, const Times& start) {
  Times done = start;
  bool waits = false;
  for_each_unit(address, bytes, [&](Address at, std::uint64_t part) {
    const bool from_dram = hierarchy_->dma_read(at & ~(hierarchy_->unit_bytes() - 1));
    const auto traffic = hierarchy_->take_traffic();
    if (traffic.writes > 0)
      timing_->dram().post(at, static_cast<std::uint64_t>(traffic.writes) * hierarchy_->unit_bytes());
    if (!from_dram) return;
    waits = true;
    done = timing_->dram().pass(at, part, done);
  });
  return waits ? done + timing_->dram().device_latency() : done;
}

// ---- scenarios

void Memory::forget(Address address, std::uint64_t bytes) {
  for_each_unit(address, bytes, [&](Address at, std::uint64_t) { hierarchy_->forget(at); });
}

void Memory::forget_everything() {
  hierarchy_->forget_everything();
  translation_->forget_everything();
}

// ---- clocks and counts

const Times& Memory::now(int core) const { return timing_->now(core); }
void Memory::advance(int core, Ps duration) { timing_->advance(core, duration); }
void Memory::wait_until(int core, const Times& instant) { timing_->wait_until(core, instant); }
void Memory::drain(int core) { timing_->drain(core); }

Counts Memory::counts() const {
  auto all = hierarchy_->counts();
  all.tlbs = counts_of_tlbs_.tlbs;
  all.page_faults = counts_of_tlbs_.page_faults;
  const auto& dram = all.dram;
  all.dram.bytes +=
      (dram.reads + dram.writes + dram.prefetches + dram.dma_reads + dram.dma_writes) * hierarchy_->unit_bytes();
  return all;
}

void Memory::reset_counts() {
  hierarchy_->reset_counts();
  for (auto& tlb : counts_of_tlbs_.tlbs) tlb = {};
  counts_of_tlbs_.page_faults = 0;
}

Memory::Copy Memory::copy_in(int core, int level, Address address) const {
  return hierarchy_->copy_in(core, level, address);
}

}  // namespace nearfield::sim

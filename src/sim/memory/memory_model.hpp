// The caches of a node's cores, coherence between them, TLBs, DRAM and clocks, under one variant or a group of
// variants. memory.hpp describes what an access does. Work that is common to all variants of a group is done once
// (variants.hpp), then the clocks of each variant advance. NodeMemory (memory.hpp) calls MemoryModel and documents the
// functions of the same names.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "sim/engine/config_clock.hpp"
#include "sim/memory/access.hpp"

namespace nearfield {
struct Machine;
}

namespace nearfield::sim {

struct Counts;
class PageFrames;         // maps pages to frames
class TimingEventBuffer;  // cache outcomes that the timing model has not consumed yet
class Timing;             // the clocks of cores
class Translation;        // TLBs
class StreamPrefetcher;   // one per core

class MemoryModel {
 public:
  MemoryModel(const Machine& machine, const std::array<double, num_memory_speeds>& memory_slowdown, int variants,
              bool limits_ways);
  // Moves one variant out of `group`, a model of several variants of the same machine. `group` loses the clocks of that
  // variant.
  MemoryModel(const Machine& machine, MemoryModel& group, int variant);
  ~MemoryModel();

  void access(int core, Access kind, Address address, unsigned bytes);
  void sweep(int core, Access kind, Address address, std::uint64_t count, std::int64_t stride_bytes, unsigned bytes,
             Ps compute_time);
  void copy(int core, Address to, Address from, std::uint64_t bytes);
  void replay(int core, std::span<const Reference> trace);
  void replay(int core, std::span<const Address> addresses, Access kind, unsigned bytes);
  ConfigClock dma_write(Address address, std::uint64_t bytes, std::span<const InjectionTarget> targets,
                        const ConfigClock& start);
  ConfigClock dma_read(Address address, std::uint64_t bytes, const ConfigClock& start);
  void invalidate_range(Address address, std::uint64_t bytes);
  void invalidate_all();

  const TimeVector& now(int core, int variant) const;
  void advance(int core, Ps duration);
  void wait_until(int core, const ConfigClock& instant);
  void drain(int core);

  Counts counts(int variant) const;
  void reset_counts();
  CopyState cached_copy_state(int core, int level, Address address, int variant) const;

  void disable_fast_path();
  // Returns the number of variants if each can be moved into a model of its own; otherwise 1.
  int num_separable_variants() const;
  // Returns how many accesses had different outcomes under different variants.
  Count num_diverging_accesses() const { return num_diverging_accesses_; }

 private:
  using Timings = std::vector<std::unique_ptr<Timing>>;  // one per variant
  struct Caches;                                         // hierarchy.hpp and devices.hpp
  struct CoreContext;                                    // what an access of one core needs
  MemoryModel(const Machine& machine, Timings timings, bool limits_ways);
  Timings take_timings(int variant);
  const CoreContext& core_context(int core) const;
  void flush_timing_events() const;
  void translate(const CoreContext& context, Access kind, Address address, Count num_accesses);
  void access_spanning_lines(const CoreContext& context, Access kind, Address address, unsigned bytes, Ps compute_time);
  void access_nontemporal(const CoreContext& context, Access kind, Address address, unsigned bytes, Ps compute_time);
  void copy_by_lines(const CoreContext& context, Address to, Address from, std::uint64_t bytes);
  void add_prefetchers(const Machine& machine);
  // Makes accesses within one L1 line, on the fast path for this configuration of caches (core_context.hpp) if
  // possible.
  void dispatch_access_line(const CoreContext& context, Access kind, Address address, unsigned bytes, Ps compute_time);
  template <class Config>
  void access_line(const CoreContext& context, Access kind, Address address, unsigned bytes, Count num_accesses,
                   Ps compute_time);
  template <class Config>
  void sweep_lines(const CoreContext& context, Access kind, Address address, std::uint64_t count, std::uint64_t stride,
                   bool is_downward, unsigned bytes, Ps compute_time);
  struct SameKindTrace;
  template <class Trace>
  void replay_all(int core, const Trace& trace);
  template <class Config, class Trace>
  void replay_batch(const CoreContext& context, const Trace& trace, std::size_t begin, std::size_t end,
                    std::size_t prefetch_end, int far_level);
  // Functions of the slow path and of the prefetcher (memory_slow_path.cpp).
  struct Outcomes;
  void access_line_slow(const CoreContext& context, Access kind, Address address, unsigned bytes, Count num_accesses,
                        Ps compute_time);
  void repeat_access_slow(const CoreContext& context, Access kind, Address address, unsigned bytes, Count count,
                          Ps compute_time);
  template <class Config>
  bool prefetch(const CoreContext& context, Address line);
  template <class Config>
  bool run_prefetcher(const CoreContext& context, Address address);
  template <class Config>
  bool run_prefetcher(const CoreContext& context, const Outcomes& outcomes);
  template <class Config>
  bool prefetch_nth_line(const CoreContext& context, const Outcomes& outcomes, int n);
  template <class Action>
  std::pair<ConfigClock, unsigned char> transfer(Address address, std::uint64_t bytes, const ConfigClock& start,
                                                 const std::array<unsigned char, max_variants>& classes,
                                                 Action&& action);
  template <class Function>
  void for_each_granule(Address address, std::uint64_t bytes, Function&& function);

  std::unique_ptr<Counts> tlb_counts_;  // only the counts of TLBs and page faults are used
  std::unique_ptr<Caches> caches_;
  std::unique_ptr<PageFrames> frames_;
  Timings timings_;
  std::unique_ptr<Translation> translation_;
  std::vector<StreamPrefetcher> prefetchers_;  // one per core
  std::unique_ptr<TimingEventBuffer> timing_events_;
  std::vector<CoreContext> contexts_;                     // one per core
  mutable const CoreContext* current_context_ = nullptr;  // the core whose events are buffered
  Count num_diverging_accesses_ = 0;
  bool has_translation_ = false;
  Ps copy_ps_per_byte_ = 0;  // time of a load or of a store per copied byte; 0: copies access words
  Ps issue_time_;
  bool prefetch_may_evict_trigger_ = false;  // a prefetched line may evict the line whose access triggered the prefetch
};

}  // namespace nearfield::sim

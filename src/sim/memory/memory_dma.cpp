// DMA accesses of devices to a node's memory.
#include "sim/memory/core_context.hpp"

namespace nearfield::sim {
namespace {

// The DRAM traffic of one DMA transfer, under each variant. Consecutive granules are collected into ranges, each of
// which is timed by one call of DramTiming.
class DramTransfer {
 public:
  DramTransfer(std::span<const std::unique_ptr<Timing>> timings, std::uint64_t granule, const ConfigClock& start)
      : timings_(timings), granule_bytes_(granule), completion_time_(start) {}

  void pass_granule(std::size_t variant, Address address, std::uint64_t bytes) {
    auto& range = granule_ranges_[variant];
    if (address != range.begin + range.granules * granule_bytes_ || bytes != granule_bytes_) time_granules(variant);
    if (bytes != granule_bytes_) {
      time_of(variant) = dram_of(variant).serve_device_access(address, bytes, time_of(variant));
      return;
    }
    if (range.granules == 0) range.begin = address;
    ++range.granules;
  }
  // Posts the write-backs of `granules` granules, which caches make before the next granule of the transfer.
  void write_back(std::size_t variant, Address address, unsigned granules) {
    if (granules == 0) return;
    time_granules(variant);
    dram_of(variant).post_write_back(address, granules * granule_bytes_);
  }
  const ConfigClock& completion_time() {
    for (std::size_t variant = 0; variant < timings_.size(); ++variant) time_granules(variant);
    return completion_time_;
  }

 private:
  struct GranuleRange {
    Address begin = 0;
    Count granules = 0;
  };
  DramTiming& dram_of(std::size_t variant) { return timings_[variant]->dram(); }
  TimeVector& time_of(std::size_t variant) { return completion_time_[static_cast<int>(variant)]; }
  void time_granules(std::size_t variant) {
    auto& range = granule_ranges_[variant];
    if (range.granules == 0) return;
    time_of(variant) = dram_of(variant).serve_device_granules(range.begin, range.granules, time_of(variant));
    range.granules = 0;
  }

  std::span<const std::unique_ptr<Timing>> timings_;
  std::uint64_t granule_bytes_;
  ConfigClock completion_time_;
  std::array<GranuleRange, max_variants> granule_ranges_;
};

// A batch of granules of a transfer, which are simulated as one action (variants.hpp), and the outcome of each granule
// under each variant.
struct GranuleBatch {
  static constexpr std::size_t capacity = 32;
  struct Outcome {
    bool uses_dram;  // the granule is read from or written to DRAM
    unsigned writes;
  };
  struct Granule {
    Address address;
    std::uint64_t bytes;
  };
  GranuleBatch() {}

  std::size_t count = 0;
  union {
    std::array<Granule, capacity> granules;
  };
  union {
    std::array<std::array<Outcome, capacity>, max_variants> outcomes;  // indexed by the leader of a group of variants
  };
};

}  // namespace

// Runs `action` for each granule of a range, in batches. Returns the completion time, and the mask of the variants
// under which DRAM takes part in the transfer.
template <class Action>
std::pair<ConfigClock, unsigned char> MemoryModel::transfer(Address address, std::uint64_t bytes,
                                                            const ConfigClock& start,
                                                            const std::array<unsigned char, max_variants>& classes,
                                                            Action&& action) {
  flush_timing_events();
  auto& contents = caches_->contents;
  DramTransfer transfer(timings_, contents.tree.granule_bytes(), start);
  Variants::Mask dram_variants = 0;
  GranuleBatch granules;
  const auto run_action = [&] {
    const bool whole = granules.granules[0].bytes == contents.tree.granule_bytes();
    const auto leaders = contents.run(whole ? classes : contents.variants.single_class(), [&](int variant) {
      auto& outcomes = granules.outcomes[static_cast<std::size_t>(variant)];
      for (std::size_t i = 0; i < granules.count; ++i) {
        const bool uses_dram = action(variant, contents.tree.granule_of(granules.granules[i].address), whole);
        outcomes[i] = {uses_dram, contents.counters.take_write_count()};
      }
    });
    for (std::size_t v = 0; v < timings_.size(); ++v)
      for (std::size_t i = 0; i < granules.count; ++i) {
        const auto& outcome = granules.outcomes[leaders[v]][i];
        transfer.write_back(v, granules.granules[i].address, outcome.writes);
        if (!outcome.uses_dram) continue;
        dram_variants |= static_cast<Variants::Mask>(1U << v);
        transfer.pass_granule(v, granules.granules[i].address, granules.granules[i].bytes);
      }
    granules.count = 0;
  };
  for_each_granule(address, bytes, [&](Address at, std::uint64_t piece) {
    const bool fits_batch = granules.count < GranuleBatch::capacity &&
                            (granules.count == 0 || granules.granules[granules.count - 1].bytes == piece);
    if (!fits_batch) run_action();
    granules.granules[granules.count++] = {at, piece};
  });
  if (granules.count > 0) run_action();
  return {transfer.completion_time(), dram_variants};
}

ConfigClock MemoryModel::dma_write(Address address, std::uint64_t bytes, std::span<const InjectionTarget> targets,
                                   const ConfigClock& start) {
  const auto classes = caches_->contents.variants.equivalence_classes(
      [&](std::size_t a, std::size_t b) { return targets[a] == targets[b]; });
  return transfer(address, bytes, start, classes,
                  [&](int variant, Address granule, bool whole) {
                    if (whole)
                      caches_->devices.write_whole_granule(granule, targets[static_cast<std::size_t>(variant)]);
                    else
                      caches_->devices.write_partial_granule(granule);
                    return true;
                  })
      .first;
}

ConfigClock MemoryModel::dma_read(Address address, std::uint64_t bytes, const ConfigClock& start) {
  auto [done, waits] = transfer(address, bytes, start, caches_->contents.variants.single_class(),
                                [&](int, Address granule, bool) { return caches_->devices.read_granule(granule); });
  for (int v = 0; v < start.num_variants(); ++v)
    if (waits >> v & 1) done[v] += timings_[static_cast<std::size_t>(v)]->dram().device_latency(address);
  return done;
}

}  // namespace nearfield::sim

// What devices do to a node's memory.
#include "sim/memory/core_context.hpp"

namespace nearfield::sim {
namespace {

// A transfer as the DRAM of each variant sees it. Neighbouring units pass one after the other, so the DRAM is told of a
// row of them at once.
class Transfer {
 public:
  Transfer(std::span<const std::unique_ptr<Timing>> timings, std::uint64_t unit, const Clock& start)
      : timings_(timings), unit_(unit), done_(start) {}

  void pass(std::size_t variant, Address address, std::uint64_t bytes) {
    auto& row = rows_[variant];
    if (address != row.begin + row.units * unit_ || bytes != unit_) tell(variant);
    if (bytes != unit_) {
      its(variant) = dram(variant).pass(address, bytes, its(variant));
      return;
    }
    if (row.units == 0) row.begin = address;
    ++row.units;
  }
  // Units that caches write before the next one passes.
  void write(std::size_t variant, Address address, unsigned units) {
    if (units == 0) return;
    tell(variant);
    dram(variant).post(address, units * unit_);
  }
  const Clock& done() {
    for (std::size_t variant = 0; variant < timings_.size(); ++variant) tell(variant);
    return done_;
  }

 private:
  struct Row {
    Address begin = 0;
    Count units = 0;
  };
  DramTiming& dram(std::size_t variant) { return timings_[variant]->dram(); }
  Times& its(std::size_t variant) { return done_[static_cast<int>(variant)]; }
  void tell(std::size_t variant) {
    auto& row = rows_[variant];
    if (row.units == 0) return;
    its(variant) = dram(variant).pass_units(row.begin, row.units, its(variant));
    row.units = 0;
  }

  std::span<const std::unique_ptr<Timing>> timings_;
  std::uint64_t unit_;
  Clock done_;
  std::array<Row, most_variants> rows_;
};

// The units of a transfer that are one action, and what it did to each under each variant.
struct Units {
  static constexpr std::size_t most = 32;
  struct Outcome {
    bool passes;  // through DRAM
    unsigned writes;
  };
  struct Unit {
    Address address;
    std::uint64_t bytes;
  };
  Units() {}

  std::size_t count = 0;
  union {
    std::array<Unit, most> units;
  };
  union {
    std::array<std::array<Outcome, most>, most_variants> outcomes;  // by who acted
  };
};

}  // namespace

// `action` is done for each unit of a range, for many units at once. Returns when the transfer is done, and the variants
// under which DRAM has a part in it.
template <class Action>
std::pair<Clock, unsigned char> Memory::transfer(Address address, std::uint64_t bytes, const Clock& start,
                                                 const std::array<unsigned char, most_variants>& alike,
                                                 Action&& action) {
  tell_clocks();
  auto& contents = caches_->contents;
  Transfer transfer(timings_, contents.unit_bytes(), start);
  Variants::Mask passes = 0;
  Units units;
  const auto act = [&] {
    const bool whole = units.units[0].bytes == contents.unit_bytes();
    const auto actors = contents.act(whole ? alike : contents.variants().all_alike(), [&](int variant) {
      auto& outcomes = units.outcomes[static_cast<std::size_t>(variant)];
      for (std::size_t i = 0; i < units.count; ++i) {
        const bool its = action(variant, contents.unit_of(units.units[i].address), whole);
        outcomes[i] = {its, contents.take_writes()};
      }
    });
    for (std::size_t v = 0; v < timings_.size(); ++v)
      for (std::size_t i = 0; i < units.count; ++i) {
        const auto& its = units.outcomes[actors[v]][i];
        transfer.write(v, units.units[i].address, its.writes);
        if (!its.passes) continue;
        passes |= static_cast<Variants::Mask>(1U << v);
        transfer.pass(v, units.units[i].address, units.units[i].bytes);
      }
    units.count = 0;
  };
  for_each_unit(address, bytes, [&](Address at, std::uint64_t part) {
    const bool joins = units.count < Units::most && (units.count == 0 || units.units[units.count - 1].bytes == part);
    if (!joins) act();
    units.units[units.count++] = {at, part};
  });
  if (units.count > 0) act();
  return {transfer.done(), passes};
}

Clock Memory::dma_write(Address address, std::uint64_t bytes, std::span<const Placement> placements,
                        const Clock& start) {
  if (!apart_.empty()) {
    Clock done(start.variants());
    for (int v = 0; v < start.variants(); ++v) {
      const auto its = static_cast<std::size_t>(v);
      done[v] = apart_[its]->dma_write(address, bytes, placements.subspan(its, 1), start.of(v))[0];
    }
    return done;
  }
  const auto alike =
      caches_->contents.variants().alike([&](std::size_t a, std::size_t b) { return placements[a] == placements[b]; });
  return transfer(address, bytes, start, alike,
                  [&](int variant, Address unit, bool whole) {
                    if (whole)
                      caches_->devices.write_whole(unit, placements[static_cast<std::size_t>(variant)]);
                    else
                      caches_->devices.write_part(unit);
                    return true;
                  })
      .first;
}

Clock Memory::dma_read(Address address, std::uint64_t bytes, const Clock& start) {
  if (!apart_.empty()) {
    Clock done(start.variants());
    for (int v = 0; v < start.variants(); ++v)
      done[v] = apart_[static_cast<std::size_t>(v)]->dma_read(address, bytes, start.of(v))[0];
    return done;
  }
  auto [done, waits] = transfer(address, bytes, start, caches_->contents.variants().all_alike(),
                                [&](int, Address unit, bool) { return caches_->devices.read(unit); });
  for (int v = 0; v < start.variants(); ++v)
    if (waits >> v & 1) done[v] += timings_[static_cast<std::size_t>(v)]->dram().device_latency();
  return done;
}

}  // namespace nearfield::sim

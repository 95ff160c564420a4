// What devices do to a node's memory.
#include "sim/memory/acting.hpp"

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

}  // namespace

Clock Memory::dma_write(Address address, std::uint64_t bytes, std::span<const Placement> placements,
                        const Clock& start) {
  auto& contents = caches_->contents;
  const auto whole = contents.unit_bytes();
  const auto alike =
      contents.variants().alike([&](std::size_t a, std::size_t b) { return placements[a] == placements[b]; });
  Transfer transfer(timings_, whole, start);
  for_each_unit(address, bytes, [&](Address at, std::uint64_t part) {
    const auto unit = contents.unit_of(at);
    std::array<unsigned, most_variants> writes;
    const auto actors = contents.act(part == whole ? alike : contents.variants().all_alike(), [&](int variant) {
      const auto v = static_cast<std::size_t>(variant);
      if (part == whole)
        caches_->devices.write_whole(unit, placements[v]);
      else
        caches_->devices.write_part(unit);
      writes[v] = contents.take_writes();
    });
    for (std::size_t v = 0; v < timings_.size(); ++v) {
      transfer.write(v, at, writes[actors[v]]);
      transfer.pass(v, at, part);
    }
  });
  return transfer.done();
}

Clock Memory::dma_read(Address address, std::uint64_t bytes, const Clock& start) {
  auto& contents = caches_->contents;
  Transfer transfer(timings_, contents.unit_bytes(), start);
  Variants::Mask waits = 0;
  for_each_unit(address, bytes, [&](Address at, std::uint64_t part) {
    struct {
      bool from_dram;
      unsigned writes;
    } of[most_variants];
    const auto actors = contents.act([&](int variant) {
      const bool from_dram = caches_->devices.read(contents.unit_of(at));
      of[variant] = {from_dram, contents.take_writes()};
    });
    for (std::size_t v = 0; v < timings_.size(); ++v) {
      const auto& its = of[actors[v]];
      transfer.write(v, at, its.writes);
      if (!its.from_dram) continue;
      waits |= static_cast<Variants::Mask>(1U << v);
      transfer.pass(v, at, part);
    }
  });
  Clock done = transfer.done();
  for (int v = 0; v < start.variants(); ++v)
    if (waits >> v & 1) done[v] += timings_[static_cast<std::size_t>(v)]->dram().device_latency();
  return done;
}

}  // namespace nearfield::sim

// What devices do to a node's memory.
#include "sim/memory/acting.hpp"

namespace nearfield::sim {

Clock Memory::dma_write(Address address, std::uint64_t bytes, std::span<const Placement> placements,
                        const Clock& start) {
  auto& contents = caches_->contents;
  const auto whole = contents.unit_bytes();
  Variants::Mask same = 0;
  for (std::size_t v = 0; v < timings_.size(); ++v)
    same |= static_cast<Variants::Mask>((placements[v] == placements[0]) << v);
  Clock done = start;
  for_each_unit(address, bytes, [&](Address at, std::uint64_t part) {
    const auto unit = contents.unit_of(at);
    std::array<unsigned, most_variants> writes{};
    const auto apart = contents.act(part == whole ? same : contents.variants().all(), [&](int variant) {
      const auto v = static_cast<std::size_t>(variant);
      if (part == whole)
        caches_->devices.write_whole(unit, placements[v]);
      else
        caches_->devices.write_part(unit);
      writes[v] = contents.take_writes();
    });
    for (int v = 0; v < start.variants(); ++v) {
      auto& dram = timings_[static_cast<std::size_t>(v)]->dram();
      if (const auto its = writes[apart >> v & 1 ? static_cast<std::size_t>(v) : 0]) dram.post(at, its * whole);
      done[v] = dram.pass(at, part, done[v]);
    }
  });
  return done;
}

Clock Memory::dma_read(Address address, std::uint64_t bytes, const Clock& start) {
  auto& contents = caches_->contents;
  Clock done = start;
  Variants::Mask waits = 0;
  for_each_unit(address, bytes, [&](Address at, std::uint64_t part) {
    struct {
      bool from_dram;
      unsigned writes;
    } of[most_variants];
    const auto apart = contents.act(contents.variants().all(), [&](int variant) {
      const bool from_dram = caches_->devices.read(contents.unit_of(at));
      of[variant] = {from_dram, contents.take_writes()};
    });
    for (int v = 0; v < start.variants(); ++v) {
      auto& dram = timings_[static_cast<std::size_t>(v)]->dram();
      const auto& its = of[apart >> v & 1 ? v : 0];
      if (its.writes > 0) dram.post(at, its.writes * contents.unit_bytes());
      if (!its.from_dram) continue;
      waits |= static_cast<Variants::Mask>(1U << v);
      done[v] = dram.pass(at, part, done[v]);
    }
  });
  for (int v = 0; v < start.variants(); ++v)
    if (waits >> v & 1) done[v] += timings_[static_cast<std::size_t>(v)]->dram().device_latency();
  return done;
}

}  // namespace nearfield::sim

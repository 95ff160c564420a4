// Costs of an unknown machine. The numbers are of one machine or are guesses, as noted: they rank decompositions by
// their shape; a profile gives times.
#include "plan/costs.hpp"

namespace nearfield::planning {
namespace {

/// Two cores of a two-core Zen 3 EPYC VM that share an L3 cache: the core-to-core latency is 55 ns, and 64 KiB that the
/// other core just wrote are read in 780 ns. An exchange takes two flags: "written, you may read" and "read, you may
/// write". An isolated double in a 64-byte line costs that line. Not included: waiting for a flag is not shared among
/// neighbours; page accesses (a strided face touches one per row).
Link in_place() {
  constexpr double flag_ns = 55, ns_per_byte = 780.0 / 65536;
  constexpr std::int64_t line_bytes = 64;
  constexpr double doubles_per_line = line_bytes / 8.0;
  return {.latency_ns = 2 * flag_ns,
          .ns_per_byte = ns_per_byte,
          .strided = {{8, ns_per_byte}, {line_bytes, doubles_per_line * ns_per_byte}}};
}

/// `nearfield probe --quick` on that VM, Open MPI 5.0.11, shared-l3: half a round trip of 8 bytes takes 180 ns (buffers
/// modified), of 256 KiB 19.7 us; of 256 KiB of strided doubles (MPI_Type_vector) with strides of 2, 8, 16, 32 and 64
/// doubles 32, 36, 68, 156 and 253 us.
Link same_node() {
  constexpr double per_byte = 1.0 / (256 << 10);
  const Curve strided = {{8, 19.7e3 * per_byte}, {16, 32e3 * per_byte},   {64, 36e3 * per_byte},
                         {128, 68e3 * per_byte}, {256, 156e3 * per_byte}, {512, 253e3 * per_byte}};
  return {.latency_ns = 180, .ns_per_byte = 19.7e3 * per_byte, .strided = strided};
}

/// A guess at a network of 100 Gb/s: 12.5 GB/s nominal, 1.5 us as MPIs commonly achieve on such networks; not measured
/// here. Cores pack non-contiguous elements, so these cost the same as inside a node.
Link network() {
  const Link near = same_node();
  Link link{.latency_ns = 1500, .ns_per_byte = 1 / 12.5, .strided = {}};
  for (const auto& [stride, ns_per_byte] : near.strided)
    link.strided[stride] = link.ns_per_byte + ns_per_byte - near.ns_per_byte;
  return link;
}

/// On that VM 256 KiB that the other core just wrote are copied in 8.7 us (tests/data/epyc-vm-quiet).
constexpr double copy_ns_per_byte = 8.7e3 / (256 << 10);

}  // namespace

Costs default_costs() {
  return {.in_place = in_place(),
          .same_node = same_node(),
          .network = network(),
          .copy_ns_per_byte = copy_ns_per_byte,
          .sweep_ns_per_cell = {}};
}

}  // namespace nearfield::planning

// Costs for an unknown machine. The numbers were measured on one machine or are guesses, as noted at each. They suffice
// to compare decompositions by their shape; predictions of times need the costs of a profile.
#include "plan/costs.hpp"

namespace nearfield::planning {
namespace {

/// Two cores of a two-core Zen 3 EPYC VM that share an L3 cache: the core-to-core latency is 55 ns, and 64 KiB that the
/// other core has just written are read in 780 ns. An exchange takes two flags: "written, you may read" and "read, you
/// may write". An isolated double in a 64-byte line costs the whole line. The model ignores that waits for the flags of
/// several neighbours overlap, and the TLB misses of strided faces, which touch one page per row.
LinkCosts in_place_costs() {
  constexpr double flag_latency_ns = 55, ns_per_byte = 780.0 / 65536;
  constexpr std::int64_t line_bytes = 64;
  constexpr double doubles_per_line = line_bytes / 8.0;
  return {.latency_ns = 2 * flag_latency_ns,
          .ns_per_byte = ns_per_byte,
          .ns_per_byte_by_stride = {{8, ns_per_byte}, {line_bytes, doubles_per_line * ns_per_byte}}};
}

/// `nearfield probe --quick` on the same VM, Open MPI 5.0.11, shared-l3: half a round trip takes 180 ns for 8 bytes
/// (buffers modified), 19.7 us for 256 KiB, and 32, 36, 68, 156 and 253 us for 256 KiB of strided doubles
/// (MPI_Type_vector) with strides of 2, 8, 16, 32 and 64 doubles.
LinkCosts same_node_costs() {
  constexpr double per_message_byte = 1.0 / (256 << 10);
  const Curve ns_per_byte_by_stride = {{8, 19.7e3 * per_message_byte},  {16, 32e3 * per_message_byte},
                                       {64, 36e3 * per_message_byte},   {128, 68e3 * per_message_byte},
                                       {256, 156e3 * per_message_byte}, {512, 253e3 * per_message_byte}};
  return {.latency_ns = 180, .ns_per_byte = 19.7e3 * per_message_byte, .ns_per_byte_by_stride = ns_per_byte_by_stride};
}

/// A guess at a network of 100 Gb/s: 12.5 GB/s nominal, and a latency of 1.5 us, as MPIs commonly achieve on such
/// networks; not measured here. Cores pack non-contiguous elements, so the elements cost the same as inside a node.
LinkCosts network_costs() {
  const LinkCosts same_node = same_node_costs();
  LinkCosts link{.latency_ns = 1500, .ns_per_byte = 1 / 12.5, .ns_per_byte_by_stride = {}};
  for (const auto& [stride, ns_per_byte] : same_node.ns_per_byte_by_stride)
    link.ns_per_byte_by_stride[stride] = link.ns_per_byte + ns_per_byte - same_node.ns_per_byte;
  return link;
}

/// On the same VM, a core copies 256 KiB that the other core has just written in 8.7 us (tests/data/epyc-vm-quiet).
constexpr double copy_ns_per_byte = 8.7e3 / (256 << 10);

}  // namespace

Costs default_costs() {
  return {.in_place = in_place_costs(),
          .same_node = same_node_costs(),
          .network = network_costs(),
          .copy_ns_per_byte = copy_ns_per_byte,
          .sweep_ns_per_cell = {}};
}

}  // namespace nearfield::planning

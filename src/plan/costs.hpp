// A cost model of a message from one rank to another: latency, bytes, non-contiguous elements, and load on the network.
// Callers take the parameters from a profile, a machine description or default_costs(). The model ignores the number of
// hops (irrelevant without load: paper S3, papers/S3/README.md, sections 3 and 4) and protocol switches, and assumes
// that the messages of one rank do not overlap.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

namespace nearfield::planning {

/// The points (x -> y) of a piecewise linear curve, constant beyond the first and the last point.
using Curve = std::map<std::int64_t, double>;

/// The costs of one kind of message. Times are from the call of the sender to the return of the receiver, including
/// packing and unpacking.
struct LinkCosts {
  double latency_ns = 0;   ///< of an empty message
  double ns_per_byte = 0;  ///< of contiguous bytes
  /// Stride in bytes between successive doubles -> ns per byte of a message of these doubles. A stride of 8 means that
  /// they are contiguous.
  Curve ns_per_byte_by_stride{};
  /// Memory bank conflicts: a stride in bytes -> ns per byte for all strides that are multiples of it. The largest key
  /// that divides the stride of a message applies instead of `ns_per_byte_by_stride`.
  Curve ns_per_byte_by_bank_stride{};
  double load_factor = 1;                     ///< slowdown of a message's bytes when all ranks communicate
  std::int64_t min_loaded_message_bytes = 0;  ///< `load_factor` applies to messages of at least this size
};

struct Costs {
  /// The costs of reading cells of another rank on the node in place: signals and cache lines. nullopt if ranks on a
  /// node send messages instead.
  std::optional<LinkCosts> in_place;
  LinkCosts same_node;  ///< a message inside a node
  LinkCosts network;    ///< a message between nodes
  /// The time per byte in which a core copies data that another core of the node has just written.
  double copy_ns_per_byte = 0;
  /// Cells per contiguous row -> time of a sweep in ns per cell. Empty if unknown; plans then consider communication
  /// only.
  Curve sweep_ns_per_cell;

  const LinkCosts& costs_inside_node() const { return in_place ? *in_place : same_node; }
  /// Returns the core-to-core latency of one flag in ns; an exchange in place takes two flags.
  double flag_latency_ns() const { return costs_inside_node().latency_ns / 2; }
};

/// The memory layout of a box of cells: runs of contiguous bytes, whose beginnings are `stride_bytes` apart.
struct MessageLayout {
  std::int64_t bytes = 0;
  std::int64_t runs = 0;
  std::int64_t run_bytes = 0;
  std::int64_t stride_bytes = 0;  ///< 0: there is one run
};

/// The time of a message in ns, by component.
struct MessageTime {
  double latency_ns = 0;
  double bytes_ns = 0;    ///< as if contiguous, including load
  double strided_ns = 0;  ///< extra time because the runs are not contiguous

  double total_ns() const { return latency_ns + bytes_ns + strided_ns; }
};

/// Returns the value of a curve at x; 0 if the curve has no points.
double interpolate(const Curve& curve, std::int64_t x);

/// Returns the time of a message. Each run costs, in addition to its bytes, what one double at the same stride costs
/// more than a contiguous double, regardless of the length of the run: the unused rest of a cache line or bank access.
MessageTime predict_message_time(const LinkCosts& link, const MessageLayout& message);

/// Returns the costs for an unknown machine. The definition names the source of every number.
Costs default_costs();

}  // namespace nearfield::planning

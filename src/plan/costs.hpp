// A cost model of a message from one rank to another: latency, bytes, non-contiguous elements, and load on the network.
// Plain data and pure functions; the caller takes the numbers from a profile, a described machine or `default_costs`.
// Left out: the number of hops (irrelevant without load: S3, sections 3 and 4), changes of protocol with the message
// size, and overlap: the messages of one rank are assumed to be sequential.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

namespace nearfield::planning {

/// The points (x -> y) of a piecewise linear curve, constant beyond the first and the last point.
using Curve = std::map<std::int64_t, double>;

/// The costs of one kind of message. Times are one-way; they include the work of sender and receiver, and packing.
struct LinkCosts {
  double latency_ns = 0;   ///< of an empty message
  double ns_per_byte = 0;  ///< of contiguous bytes
  /// Stride in bytes between successive doubles -> ns per byte of a message of such doubles. A stride of 8 is
  /// contiguous.
  Curve strided{};
  /// Memory bank conflicts: granularity in bytes -> ns per byte for strides that are a multiple of the granularity. The
  /// largest granularity that divides the stride applies, and replaces `strided`.
  Curve banked{};
  double load_factor = 1;            ///< slowdown of a message's bytes when all ranks communicate
  std::int64_t load_from_bytes = 0;  ///< `load_factor` applies to messages of at least this size
};

struct Costs {
  /// The costs of reading cells of another rank of the node in place: flags and cache lines. nullopt: ranks of a node
  /// send messages.
  std::optional<LinkCosts> in_place;
  LinkCosts same_node;  ///< a message inside a node
  LinkCosts network;    ///< a message between nodes
  /// The time in which a core copies a byte that another core of the node has just written.
  double copy_ns_per_byte = 0;
  /// Cells in a contiguous row -> time of a sweep in ns per cell. Empty: unknown; plans then consider communication
  /// only.
  Curve sweep_ns_per_cell;

  const LinkCosts& costs_inside_node() const { return in_place ? *in_place : same_node; }
  /// Returns the latency of one flag; an exchange in place takes two flags.
  double flag_ns() const { return costs_inside_node().latency_ns / 2; }
};

/// The memory layout of a box of cells: runs of contiguous bytes, `stride_bytes` between the beginnings of successive
/// runs.
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

/// Returns the value of a curve; 0 if it has no points.
double interpolate(const Curve& curve, std::int64_t x);

/// Returns the time of a message. Besides its bytes, each run costs the excess of one double at the same stride,
/// regardless of the length of the run: the unused rest of a cache line or bank access.
MessageTime message_time(const LinkCosts& link, const MessageLayout& message);

/// Returns the costs of an unknown machine. Every number has its source in the definition.
Costs default_costs();

}  // namespace nearfield::planning

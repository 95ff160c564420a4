// The costs of a message from one rank to another: latency, bytes, non-contiguous elements, and a loaded network. Plain
// data and pure functions; the caller takes the numbers from a profile, a described machine or `default_costs`. Left
// out: hops (S3, sections 3 and 4: without load they do not matter), steps of the protocol with size, and overlap:
// messages of one rank are assumed to be sequential.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

namespace nearfield::planning {

/// Points of a curve: linear between them, constant beyond the first and the last.
using Curve = std::map<std::int64_t, double>;

/// The costs of one kind of message. Times are one way, for sender and receiver together, with packing.
struct Link {
  double latency_ns = 0;   ///< of an empty message
  double ns_per_byte = 0;  ///< of contiguous bytes
  /// Stride in bytes from one double to the next -> ns per byte of such a message. 8 is contiguous.
  Curve strided{};
  /// Memory banks: granularity in bytes -> ns per byte for strides that are a multiple of it; the largest divisor of
  /// the stride applies. If there is one, it replaces `strided`.
  Curve banked{};
  double load_factor = 1;            ///< slowdown of a message's bytes when all ranks communicate
  std::int64_t load_from_bytes = 0;  ///< only for messages of at least this size
};

struct Costs {
  /// The costs if ranks of a node read each other's cells in place: flags and lines. None: they send messages.
  std::optional<Link> in_place;
  Link same_node;  ///< a message inside a node
  Link network;    ///< a message between nodes
  /// The time in which a core copies a byte that another core of the node has just written.
  double copy_ns_per_byte = 0;
  /// Cells in a contiguous row -> time of a sweep per cell in ns. Empty: not known, and plans consider communication
  /// only.
  Curve sweep_ns_per_cell;

  const Link& inside() const { return in_place ? *in_place : same_node; }
  /// One way; an exchange in place takes two.
  double flag_ns() const { return inside().latency_ns / 2; }
};

/// The memory layout of a box of cells: runs of contiguous bytes, `stride_bytes` between the beginnings of successive
/// runs.
struct Message {
  std::int64_t bytes = 0;
  std::int64_t runs = 0;
  std::int64_t run_bytes = 0;
  std::int64_t stride_bytes = 0;  ///< 0: there is one run
};

/// The components of a time, in ns.
struct Time {
  double latency_ns = 0;
  double bytes_ns = 0;    ///< as if contiguous, including load
  double strided_ns = 0;  ///< extra time because the runs are not contiguous

  double total_ns() const { return latency_ns + bytes_ns + strided_ns; }
};

/// Returns the value of a curve; 0 if it has no points.
double interpolate(const Curve& curve, std::int64_t x);

/// Returns the time of a message on this link. In addition to its bytes, a run costs as much as one double at the same
/// stride: the unused rest of its line or bank access, however long the run is.
Time time_of(const Link& link, const Message& message);

/// Returns the costs of an unknown machine. Every number has its source in the definition.
Costs default_costs();

}  // namespace nearfield::planning

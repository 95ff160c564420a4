// The costs of a message from one rank to another: latency, bytes, elements that lie apart, and a loaded network. Plain
// data and pure functions; the caller takes the numbers from a profile, a described machine or `default_costs`. Left
// out: hops (S3, sections 3 and 4: unloaded, they do not matter), steps of the protocol with size, and overlap:
// messages of one rank are assumed to follow one another.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

namespace nearfield::planning {

/// Points of a curve: linear between them, flat beyond the first and the last.
using Curve = std::map<std::int64_t, double>;

/// The costs of one kind of message. Times are one way, for sender and receiver together, with packing.
struct Link {
  double latency_ns = 0;   ///< of a message without bytes
  double ns_per_byte = 0;  ///< of bytes in one piece
  /// Bytes from one double to the next -> ns per byte of such a message. 8 is contiguous.
  Curve strided{};
  /// Memory banks: multiple of bytes -> ns per byte at strides that are a multiple of it; the largest one that divides
  /// the stride holds. Where one does, it takes the place of `strided`.
  Curve banked{};
  double load_factor = 1;            ///< by which the bytes of a message take longer when all ranks communicate at once
  std::int64_t load_from_bytes = 0;  ///< only of messages as long as this
};

struct Costs {
  /// The costs of ranks of a node that read each other's cells in place: flags and lines. None: they send messages.
  std::optional<Link> in_place;
  Link same_node;  ///< a message inside a node
  Link network;    ///< a message between nodes
  /// The time in which a core copies a byte that another one of the node has just written.
  double copy_ns_per_byte = 0;
  /// Cells in a contiguous row -> ns that a sweep takes per cell. Empty: not known, and plans go by communication
  /// alone.
  Curve sweep_ns_per_cell;

  const Link& inside() const { return in_place ? *in_place : same_node; }
  /// One way; an exchange in place takes two.
  double flag_ns() const { return inside().latency_ns / 2; }
};

/// A box of cells as memory sees it: runs of contiguous bytes, `stride_bytes` from the beginning of one to the next.
struct Message {
  std::int64_t bytes = 0;
  std::int64_t runs = 0;
  std::int64_t run_bytes = 0;
  std::int64_t stride_bytes = 0;  ///< 0: there is one run
};

/// The parts of a time, in ns.
struct Time {
  double latency_ns = 0;
  double bytes_ns = 0;    ///< as if contiguous, with load
  double strided_ns = 0;  ///< what is added because the runs lie apart

  double total_ns() const { return latency_ns + bytes_ns + strided_ns; }
};

/// Returns the value of a curve; 0 if it has no point.
double interpolate(const Curve& curve, std::int64_t x);

/// Returns the time of a message on this link. Beyond its bytes, a run costs as much as one double at the same stride:
/// the rest of the line or bank access that it does not use, however long the run is.
Time time_of(const Link& link, const Message& message);

/// Returns the costs of an unknown machine. Every number has its source in the definition.
Costs default_costs();

}  // namespace nearfield::planning

// A box is the memory that one rank of a communicator shares with the others. Only its owner writes to it; the others
// map it read-only.
//
// An operation's number is its place in the order of the communicator's collectives, which MPI makes equal on all
// ranks. Lines and slots are reused after `depth` operations: the more there are, the further a rank that only sends
// may run ahead of its readers.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace nearfield::collectives {

inline constexpr std::size_t line_bytes = 64, inline_bytes = 48, slot_bytes = 8192;
inline constexpr int max_ranks = 256;  // of a communicator

// A number that only grows, and that one rank writes.
using Counter = std::atomic<std::uint64_t>;

// The place of the data that a rank offers in an operation. If each rank gets a piece of its own, the slot begins with
// a table that has, for each rank, the piece's offset in the slot or its address in the owner's memory.
enum class Place : std::uint64_t { nowhere, line, slot, memory, pieces_in_slot, pieces_in_memory };

// The head of an operation and short data share one cache line: a reader that sees the number misses the cache once.
struct alignas(line_bytes) Line {
  Counter number;
  Place place;
  union {
    unsigned char data[inline_bytes];
    struct {
      std::uint64_t address, result;  // in the owner's process, if the place is `memory`
    };
  };
};
static_assert(sizeof(Line) == line_bytes);

template <std::uint64_t depth_>
struct BasicBox {
  static constexpr std::uint64_t depth = depth_;
  Line lines[depth];
  alignas(line_bytes) Counter read;    // this rank has read all that it needs of this operation and those before
  alignas(line_bytes) Counter closed;  // how many communicators that used this box this rank has freed
  alignas(line_bytes) std::atomic<std::uint32_t> sleeps;  // not 0: in long waits, this rank sleeps until it is woken
  alignas(line_bytes) unsigned char slots[depth][slot_bytes];
};
using Box = BasicBox<16>;

}  // namespace nearfield::collectives

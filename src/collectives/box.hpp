// A box is the memory that one rank of a communicator shares with its peers. Only the owner writes to the box; the
// peers map it read-only.
//
// The number of an operation is its position in the sequence of the communicator's collectives, which MPI makes equal
// on all ranks. The lines and slots of a box are reused after `depth` operations: the larger `depth` is, the further a
// rank that only sends may run ahead of its readers.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace nearfield::collectives {

inline constexpr std::size_t line_bytes = 64, inline_bytes = 48, slot_bytes = 8192;
inline constexpr int max_node_ranks = 256;  // ranks of one communicator on one node

// A number that only grows, written by one rank and read by its peers.
using Counter = std::atomic<std::uint64_t>;

// Where the data that a rank offers in an operation lie: in no place, in the line, in the slot, or in the owner's
// private memory. If the owner has a separate piece of data for each rank, its slot begins with a table that contains,
// for each rank, the offset of the piece in the slot (pieces_in_slot) or its address in the owner's memory
// (pieces_in_memory).
enum class DataPlace : std::uint64_t { nowhere, line, slot, memory, pieces_in_slot, pieces_in_memory };

// The counter and the data that a rank posts in one operation. The counter, the place of the data and short data share
// one cache line: a reader that sees the number has the data after a single cache miss.
struct alignas(line_bytes) Line {
  Counter number;
  DataPlace place;
  union {
    unsigned char data[inline_bytes];
    struct {
      std::uint64_t address, result;  // in the owner's address space, if the place is `memory`
    };
  };
};
static_assert(sizeof(Line) == line_bytes);

template <std::uint64_t depth_>
struct BasicBox {
  static constexpr std::uint64_t depth = depth_;
  Line lines[depth];
  alignas(line_bytes) Counter read;    // this rank has finished its reads of this operation and of those before
  alignas(line_bytes) Counter closed;  // number of communicators freed by this rank that used this box
  alignas(line_bytes) std::atomic<std::uint32_t> sleeps;  // nonzero: this rank sleeps in long waits until woken
  alignas(line_bytes) unsigned char slots[depth][slot_bytes];
};
using Box = BasicBox<16>;

}  // namespace nearfield::collectives

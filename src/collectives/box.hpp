// A box is the memory that one rank of a communicator shares with its peers. Only the owner writes to the box; the
// peers map it read-only.
//
// The number of an operation is its position in the sequence of the communicator's collectives, which MPI requires to
// be the same on all ranks. The lines and slots of a box are reused after `depth` operations, so a rank that only sends
// may run ahead of its readers by up to `depth` operations.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace nearfield::collectives {

inline constexpr std::size_t cache_line_bytes = 64, inline_bytes = 48, slot_bytes = 8192;
inline constexpr int max_node_ranks = 256;  // ranks of one communicator on one node

// A monotonically increasing number, written by one rank and read by its peers.
using Counter = std::atomic<std::uint64_t>;

// Where the data that a rank offers in an operation are: nowhere (it offers none), in its line, in its slot, or in its
// private memory. If the rank offers a separate piece of data to each peer, its slot begins with a table that contains,
// for each peer, the offset of the piece in the slot (pieces_in_slot) or the address of the piece in the owner's memory
// (pieces_in_memory).
enum class DataPlace : std::uint64_t { nowhere, line, slot, memory, pieces_in_slot, pieces_in_memory };

// The counter and the data that a rank posts in one operation. The counter, the place of the data, and short data share
// one cache line, so a reader gets the counter and the data by a single cache miss.
struct alignas(cache_line_bytes) Line {
  Counter number;
  DataPlace place;
  union {
    unsigned char data[inline_bytes];
    struct {
      std::uint64_t address, result;  // of the data and the result buffer in the owner's memory, if place is `memory`
    };
  };
};
static_assert(sizeof(Line) == cache_line_bytes);

template <std::uint64_t depth_>
struct BasicBox {
  static constexpr std::uint64_t depth = depth_;
  Line lines[depth];
  alignas(cache_line_bytes) Counter read;    // number of the last operation whose data this rank has finished reading
  alignas(cache_line_bytes) Counter closed;  // number of communicators freed by this rank that used this box
  alignas(cache_line_bytes) std::atomic<std::uint32_t> sleeps;  // nonzero: this rank sleeps in long waits until woken
  alignas(cache_line_bytes) unsigned char slots[depth][slot_bytes];
};
using Box = BasicBox<16>;

}  // namespace nearfield::collectives

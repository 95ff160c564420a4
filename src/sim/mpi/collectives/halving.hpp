// R. Rabenseifner's reduction of long vectors: recursive halving, in which the exchanged part halves in every step,
// until every rank has one block of the result. Halving needs a power of two of ranks. Otherwise the first
// `num_idle_ranks` even ranks (those below 2 * remainder) first send their vectors to the next rank, which adds them to
// its own, and then idle.
#pragma once

#include <vector>

#include "sim/mpi/collectives/blocks.hpp"

namespace nearfield::sim {

// The ranks that take part in recursive halving after the fold, numbered by place.
struct NonPowerOfTwoFold {
  explicit NonPowerOfTwoFold(int ranks)
      : num_places(static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks)))),
        num_idle_ranks(ranks - num_places) {}
  // Returns the place of a rank, or -1 if it idles.
  int place_of(int rank) const {
    if (rank >= 2 * num_idle_ranks) return rank - num_idle_ranks;
    return rank % 2 == 0 ? -1 : rank / 2;
  }
  int rank_at(int place) const { return place < num_idle_ranks ? 2 * place + 1 : place + num_idle_ranks; }

  int num_places;      // places, a power of two
  int num_idle_ranks;  // number of idle ranks, which are 0, 2, 4, ... below 2 * remainder
};

// The first step: idle ranks send `data` to their neighbors, which add it to their own. Afterwards `data` of the idle
// ranks is undefined. `scratch` is a receive buffer of the same size.
Task<> fold_idle_ranks(Communicator& comm, NonPowerOfTwoFold folded, Buffer data, Address scratch);
// The last step: idle ranks receive their neighbor's `data`, which is the result.
Task<> unfold_idle_ranks(Communicator& comm, NonPowerOfTwoFold folded, Buffer data);

// A part of a vector: the blocks [first, end).
struct BlockRange {
  int first, end;
};

// The steps of recursive halving at one place: the partner, and the parts of the vector that are kept and sent.
class RecursiveHalving {
 public:
  // `offsets` has the offset of every place's block in the vector, and the end of the last block. If `nearest_first`,
  // successive partners are at distances 1, 2, 4, ..., and place p ends up with the block whose number is p with its
  // bits reversed; otherwise the farthest partner comes first, and place p ends up with block p.
  RecursiveHalving(int place, std::vector<std::uint64_t> offsets, bool nearest_first);

  int num_steps() const { return static_cast<int>(steps_.size()); }
  int partner_place(int level) const { return place_ ^ steps_[to_index(level)].bit; }
  int partner_bit(int level) const { return steps_[to_index(level)].bit; }
  // Return the half that this place keeps in a step, and the half that it sends to its partner. `begin`: address of the
  // vector.
  Buffer own_half(int level, Address begin) const { return buffer_of_blocks(steps_[to_index(level)].own_half, begin); }
  Buffer sent_half(int level, Address begin) const {
    return buffer_of_blocks(steps_[to_index(level)].sent_half, begin);
  }

 private:
  struct HalvingStep {
    int bit;
    BlockRange own_half, sent_half;
  };
  static std::size_t to_index(int level) { return static_cast<std::size_t>(level); }
  Buffer buffer_of_blocks(const BlockRange& window, Address begin) const {
    const std::uint64_t first = offsets_[to_index(window.first)];
    return {begin + first, offsets_[to_index(window.end)] - first};
  }

  int place_;
  std::vector<std::uint64_t> offsets_;
  std::vector<HalvingStep> steps_;
};

// Reduces `data` by recursive halving. Afterwards `data` contains this place's block of the result.
Task<> reduce_by_recursive_halving(Communicator& comm, NonPowerOfTwoFold folded, const RecursiveHalving& halving,
                                   Address data, Address scratch);

// Returns the offsets of one block of whole elements per place; the last block has the remainder.
std::vector<std::uint64_t> element_offsets(std::uint64_t bytes, int places);
inline constexpr std::uint64_t element_bytes = 8;  // size of an element of a reduction

}  // namespace nearfield::sim

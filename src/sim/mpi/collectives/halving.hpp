// R. Rabenseifner's reduction of long vectors: recursive halving, in which the exchanged part halves in every step,
// until every rank has one block of the result. It needs a power of two of ranks. Otherwise the vectors of the first
// `remainder` even ranks below 2 * remainder are folded into their neighbours', and these ranks idle.
#pragma once

#include <vector>

#include "sim/mpi/collectives/blocks.hpp"

namespace nearfield::sim {

// The ranks that participate after folding.
struct NonPowerOfTwoFold {
  explicit NonPowerOfTwoFold(int ranks)
      : count(static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks)))), remainder(ranks - count) {}
  // Returns the place of a rank, or -1 if it idles.
  int place(int rank) const {
    if (rank >= 2 * remainder) return rank - remainder;
    return rank % 2 == 0 ? -1 : rank / 2;
  }
  int rank(int place) const { return place < remainder ? 2 * place + 1 : place + remainder; }

  int count;      // places, a power of two
  int remainder;  // number of idle ranks: 0, 2, 4, ... below 2 * remainder
};

// Does the first step, after which the idle ranks' `data` is undefined. `spare` is a receive buffer of the same size.
Task<> fold(Communicator& all, NonPowerOfTwoFold folded, Buffer data, Address spare);
// Does the last step: idle ranks receive the same part of the result from their neighbour.
Task<> unfold(Communicator& all, NonPowerOfTwoFold folded, Buffer data);

// A part of a vector: the blocks [first, end).
struct Window {
  int first, end;
};

// The steps of halving at one place.
class Halving {
 public:
  // `offsets`: of every place's block in `data`, and the end of the last. `nearest_first`: partners are at distances 1,
  // 2, 4, ..., and place p ends with the block of its bit-reversed number; otherwise the farthest partner comes first,
  // and place p ends with block p.
  Halving(int place, std::vector<std::uint64_t> offsets, bool nearest_first);

  int levels() const { return static_cast<int>(steps_.size()); }
  int partner(int level) const { return place_ ^ steps_[at(level)].bit; }
  int bit(int level) const { return steps_[at(level)].bit; }
  // Return the parts of the vector at `begin` that this place and its partner keep in a step.
  Buffer own_half(int level, Address begin) const { return range(steps_[at(level)].own_half, begin); }
  Buffer sent_half(int level, Address begin) const { return range(steps_[at(level)].sent_half, begin); }

 private:
  struct Step {
    int bit;
    Window own_half, sent_half;
  };
  static std::size_t at(int level) { return static_cast<std::size_t>(level); }
  Buffer range(const Window& window, Address begin) const {
    const std::uint64_t first = offsets_[at(window.first)];
    return {begin + first, offsets_[at(window.end)] - first};
  }

  int place_;
  std::vector<std::uint64_t> offsets_;
  std::vector<Step> steps_;
};

// Leaves in `data` the block of the result of every place.
Task<> reduce_by_halving(Communicator& all, NonPowerOfTwoFold folded, const Halving& halving, Address data,
                         Address spare);

// Returns the offsets of one block of whole elements per place; the last block has the remainder.
std::vector<std::uint64_t> element_offsets(std::uint64_t bytes, int places);
inline constexpr std::uint64_t element_bytes = 8;  // of a reduction

}  // namespace nearfield::sim

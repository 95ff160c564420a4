// R. Rabenseifner's way to reduce long vectors: halve what is exchanged in every step, until every rank has one block
// of the result. For powers of two; others are folded first: of the first ranks, as many as there are too many give
// their data to a neighbour and stand aside.
#pragma once

#include <vector>

#include "sim/collectives/blocks.hpp"

namespace nearfield::sim {

// The ranks that take part after folding.
struct Fold {
  explicit Fold(int ranks)
      : count(static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks)))), aside(ranks - count) {}
  // Returns the place of a rank, or -1 if it stands aside.
  int place(int rank) const {
    if (rank >= 2 * aside) return rank - aside;
    return rank % 2 == 0 ? -1 : rank / 2;
  }
  int rank(int place) const { return place < aside ? 2 * place + 1 : place + aside; }

  int count;  // places, a power of two
  int aside;  // ranks that stand aside: 0, 2, 4, ... below 2 * aside
};

// Does the first step, after which `data` of those aside is useless. `spare` is as long, to receive into.
Task<> fold(Communicator& all, Fold folded, Buffer data, Address spare);
// Does the last step: those aside get the same part of the result from their neighbour.
Task<> unfold(Communicator& all, Fold folded, Buffer data);

// A part of a vector: blocks from `first` to before `end`.
struct Window {
  int first, end;
};

// The steps of halving at one place.
class Halving {
 public:
  // `offsets`: of every place's block in `data`, and the end of the last. `nearest_first`: partners are 1, 2, 4, ...
  // places away, and blocks belong to places with their bits turned round; otherwise the farthest comes first, and
  // blocks belong to the place of their number.
  Halving(int place, std::vector<std::uint64_t> offsets, bool nearest_first);

  int levels() const { return static_cast<int>(steps_.size()); }
  int partner(int level) const { return place_ ^ steps_[at(level)].bit; }
  int bit(int level) const { return steps_[at(level)].bit; }
  // The parts of the vector at `begin` that this place and its partner keep in a step.
  Buffer kept(int level, Address begin) const { return range(steps_[at(level)].kept, begin); }
  Buffer given(int level, Address begin) const { return range(steps_[at(level)].given, begin); }

 private:
  struct Step {
    int bit;
    Window kept, given;
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

// Every place ends with its block of the result in `data`.
Task<> reduce_by_halving(Communicator& all, Fold folded, const Halving& halving, Address data, Address spare);

// `bytes` in as many blocks of whole elements as there are places; the last one has the rest.
std::vector<std::uint64_t> element_offsets(std::uint64_t bytes, int places);
inline constexpr std::uint64_t element_bytes = 8;  // of a reduction

}  // namespace nearfield::sim

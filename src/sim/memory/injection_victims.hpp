// Keeps which lines had to make room for injected ones in a cache, and were not missed since then. Each unit of the node's
// memory has a byte, which says under which variants it is such a line. The bytes lie in pieces, and a piece is allocated
// with its first victim.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "sim/memory/variants.hpp"

namespace nearfield::sim {

class Victims {
 public:
  using Mask = Variants::Mask;

  // Units are counted from the beginning of the node's memory.
  Mask of(std::uint64_t unit) const {
    const auto number = unit / units_per_piece;
    if (number >= pieces_.size() || !pieces_[number]) return 0;
    return (*pieces_[number])[unit % units_per_piece];
  }
  void add(std::uint64_t unit, Mask variants) {
    const auto number = unit / units_per_piece;
    if (number >= pieces_.size()) pieces_.resize(number + 1);
    if (!pieces_[number]) pieces_[number] = std::make_unique<Piece>();
    (*pieces_[number])[unit % units_per_piece] |= variants;
  }
  // `unit` is a victim under one of these variants.
  void remove(std::uint64_t unit, Mask variants) {
    (*pieces_[unit / units_per_piece])[unit % units_per_piece] &= static_cast<Mask>(~variants);
  }
  void clear() { pieces_.clear(); }
  // Calls `function` with each victim and its variants.
  template <class Function>
  void for_each(Function&& function) const {
    for (std::size_t number = 0; number < pieces_.size(); ++number)
      for (std::size_t i = 0; pieces_[number] && i < units_per_piece; ++i)
        if (const Mask its = (*pieces_[number])[i]) function(number * units_per_piece + i, its);
  }

 private:
  static constexpr std::size_t units_per_piece = 1 << 15;
  using Piece = std::array<Mask, units_per_piece>;
  std::vector<std::unique_ptr<Piece>> pieces_;
};

}  // namespace nearfield::sim

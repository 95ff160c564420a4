// The communication schedule of an exchange: which cells of a layout move between which ranks.
#include <utility>

#include "halo/grid.hpp"

namespace nearfield::halo {

std::vector<Message> Grid::plan_messages(const Widths& widths, bool in_place, bool add) const {
  const auto& this_place = own_place();
  const auto rank_at = [&](const Ranks& at) {
    return placement_.rank_at[static_cast<std::size_t>(layout_.place_number(at))];
  };
  const auto group = [&](const Ranks& at) { return placement_.group_of[static_cast<std::size_t>(rank_at(at))]; };
  // Returns the cells of `owner` that are ghost cells of `reader`, except cells that the reader reads in place.
  // Strip::mine is in the coordinates of the reader.
  const auto read = [&](const Ranks& reader, const Ranks& owner) {
    std::vector<Strip> strips;
    for (const auto& piece : layout_.ghost_pieces(reader, widths))
      if (piece.owner == owner && !(in_place && piece.shift == Triple{} && group(reader) == group(owner)))
        strips.push_back({piece.ghost, piece.in_owner_coordinates()});
    return strips;
  };
  const auto turned = [](std::vector<Strip> strips) {
    for (auto& strip : strips) std::swap(strip.mine, strip.theirs);
    return strips;
  };
  std::vector<Message> list;
  for (const auto& by : layout_.displacements(widths)) {
    const auto owner = layout_.displaced_place(this_place, by, 1), reader = layout_.displaced_place(this_place, by, -1);
    auto ghosts = read(this_place, owner);
    auto cells = turned(read(reader, this_place));
    Message message{cells.empty() ? -1 : rank_at(reader), ghosts.empty() ? -1 : rank_at(owner), std::move(cells),
                    std::move(ghosts)};
    if (add) {
      std::swap(message.to, message.from);
      std::swap(message.send, message.receive);
    }
    list.push_back(std::move(message));
  }
  return list;
}

}  // namespace nearfield::halo

// The communication schedule of an exchange: which cells of a layout move between which ranks.
#include <utility>

#include "halo/grid.hpp"

namespace nearfield::halo {

std::vector<Message> Grid::plan_messages(const Widths& widths, bool excludes_in_place, bool should_add) const {
  const auto& this_place = own_place();
  const auto rank_by_place_number = [&](const Ranks& place) {
    return placement_.rank_by_place_number[static_cast<std::size_t>(layout_.place_number(place))];
  };
  const auto group = [&](const Ranks& place) {
    return placement_.array_group_by_rank[static_cast<std::size_t>(rank_by_place_number(place))];
  };
  // Returns the cells of `owner` that are ghost cells of `reader`, except cells that the reader reads in place.
  // Strip::mine is in the coordinates of the reader.
  const auto read = [&](const Ranks& reader, const Ranks& owner) {
    std::vector<Strip> strips;
    for (const auto& piece : layout_.ghost_pieces(reader, widths))
      if (piece.owner_coordinates == owner &&
          !(excludes_in_place && piece.shift == Triple{} && group(reader) == group(owner)))
        strips.push_back({piece.ghost, piece.in_owner_coordinates()});
    return strips;
  };
  const auto turned = [](std::vector<Strip> strips) {
    for (auto& strip : strips) std::swap(strip.local_box, strip.neighbor_box);
    return strips;
  };
  std::vector<Message> list;
  for (const auto& displacement : layout_.displacements(widths)) {
    const auto owner = layout_.place_at_displacement(this_place, displacement, 1),
               reader = layout_.place_at_displacement(this_place, displacement, -1);
    auto ghosts = read(this_place, owner);
    auto cells = turned(read(reader, this_place));
    Message message{cells.empty() ? -1 : rank_by_place_number(reader),
                    ghosts.empty() ? -1 : rank_by_place_number(owner), std::move(cells), std::move(ghosts)};
    if (should_add) {
      std::swap(message.destination, message.source);
      std::swap(message.send, message.receive);
    }
    list.push_back(std::move(message));
  }
  return list;
}

}  // namespace nearfield::halo

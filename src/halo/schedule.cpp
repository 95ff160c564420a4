#include "halo/schedule.hpp"

#include <utility>

namespace nearfield::halo {

std::vector<Message> schedule(const Layout& layout, const Placement& placement, int rank, const Widths& widths,
                              bool in_place, bool add) {
  const auto& here = placement.place_of[static_cast<std::size_t>(rank)];
  const auto rank_at = [&](const Ranks& at) { return placement.rank_at[static_cast<std::size_t>(layout.number(at))]; };
  const auto island = [&](const Ranks& at) { return placement.island_of[static_cast<std::size_t>(rank_at(at))]; };
  // Returns the owner's cells that `reader` reads, in the reader's coordinates, without those that it reads in place.
  const auto read = [&](const Ranks& reader, const Ranks& owner) {
    std::vector<Strip> strips;
    for (const auto& piece : layout.ghosts(reader, widths))
      if (piece.owner == owner && !(in_place && piece.shift == Triple{} && island(reader) == island(owner)))
        strips.push_back({piece.ghost, piece.source()});
    return strips;
  };
  const auto turned = [](std::vector<Strip> strips) {
    for (auto& strip : strips) std::swap(strip.mine, strip.theirs);
    return strips;
  };
  std::vector<Message> list;
  for (const auto& by : layout.displacements(widths)) {
    const auto owner = layout.displaced(here, by, 1), reader = layout.displaced(here, by, -1);
    auto ghosts = read(here, owner);
    auto cells = turned(read(reader, here));
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

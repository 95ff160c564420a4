// Makes the communication schedule: which cells of a layout move between which ranks in an exchange.
#pragma once

#include <vector>

#include "halo/message.hpp"
#include "halo/placement.hpp"

namespace nearfield::halo {

/// Returns what a rank sends and receives so that its ghost cells of these widths are filled: one message for each
/// displacement, in the same order on all ranks. `in_place` leaves out cells read in place; `add` reverses the roles.
std::vector<Message> schedule(const Layout& layout, const Placement& placement, int rank, const Widths& widths,
                              bool in_place, bool add);

}  // namespace nearfield::halo

// Describes a grid for people: costs, decomposition, neighbours, memory, pages and protocols.
#include <cmath>
#include <cstdio>
#include <sstream>

#include "halo/grid.hpp"

namespace nearfield::halo {

std::string Grid::explain() const {
  std::ostringstream text;
  const auto list = [&](const auto& three) {
    for (int d = 3 - dimensions_; d < 3; ++d)
      text << (d > 3 - dimensions_ ? " x " : "") << three[static_cast<std::size_t>(d)];
  };
  text << "grid of ";
  list(layout_.extents);
  text << " cells on ";
  list(layout_.dims);
  text << " ranks; rank " << node_->rank << " at ";
  for (int d = 3 - dimensions_; d < 3; ++d)
    text << (d > 3 - dimensions_ ? ", " : "(") << own_place()[static_cast<std::size_t>(d)];
  text << ") has ";
  list(own_cells().extents());
  text << "\ncosts of " << known_.origin << "\npredicted time of an exchange by split:";
  for (const auto& [dims, time_ns] : splits_) {
    text << " ";
    list(dims);
    text << " " << std::round(time_ns) / 1e3 << " us" << (dims == splits_.back().first ? "" : ",");
  }
  text << "\nprotocol " << spec_->name << ": " << spec_->summary << "\n";
  if (!note_.empty()) text << note_ << "\n";
  int far = 0;
  for (const auto& message : plan_messages(layout_.halo, false, false))
    far += message.from >= 0 && node_->local_of[static_cast<std::size_t>(message.from)] < 0;
  text << "neighbours: " << neighbours_in_place_ << " read in place, " << neighbours_on_node() - neighbours_in_place_
       << " on the node by copy, " << far << " by MPI\n";
  if (node_->local_size > peers_->usable_cpus())
    text << "more ranks than CPUs here, " << node_->local_size << " on " << peers_->usable_cpus()
         << ": who waits yields soon\n";
  int number = 0;
  for (const auto& field : fields_) {
    text << "field " << number++
         << (field->is_in_place() ? ": one array with its neighbours" : ": ghost cells of its own") << ", "
         << field->memory().explain();
    char huge[128];
    std::snprintf(huge, sizeof huge,
                  "; mapped by huge pages here: %.1f MiB; %.0f %% of its pages are one rank's alone\n",
                  static_cast<double>(field->memory().huge_bytes()) / (1 << 20),
                  100 * field->share_of_unshared_pages(*node_, layout_, placement_));
    text << huge;
  }
  for (const auto& cached : exchanges_)
    text << "exchange of " << cached.fields.size() << " field(s)" << (cached.add ? ", reversed" : "") << ": "
         << cached.exchange->spec().name << "\n";
  return text.str();
}

}  // namespace nearfield::halo

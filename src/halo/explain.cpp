// Describes a grid in human-readable text: costs, decomposition, neighbours, memory, pages and protocols.
#include <cmath>
#include <cstdio>
#include <sstream>

#include "halo/grid.hpp"

namespace nearfield::halo {

std::string Grid::explain() const {
  std::ostringstream text;
  const auto append_extents = [&](const auto& three) {
    for (int d = 3 - dimensions_; d < 3; ++d)
      text << (d > 3 - dimensions_ ? " x " : "") << three[static_cast<std::size_t>(d)];
  };
  text << "grid of ";
  append_extents(layout_.extents);
  text << " cells on ";
  append_extents(layout_.dims);
  text << " ranks; rank " << node_->rank << " at ";
  for (int d = 3 - dimensions_; d < 3; ++d)
    text << (d > 3 - dimensions_ ? ", " : "(") << own_place()[static_cast<std::size_t>(d)];
  text << ") has ";
  append_extents(own_cells().extents());
  text << "\ncosts of " << costs_with_origin_.origin << "\npredicted time of an exchange by split:";
  for (const auto& [dims, time_ns] : best_decompositions_) {
    text << " ";
    append_extents(dims);
    text << " " << std::round(time_ns) / 1e3 << " us" << (dims == best_decompositions_.back().first ? "" : ",");
  }
  text << "\nprotocol " << protocol_spec_->name << ": " << protocol_spec_->summary << "\n";
  if (!fallback_note_.empty()) text << fallback_note_ << "\n";
  int num_mpi_neighbors = 0;
  for (const auto& message : plan_messages(layout_.halo, false, false))
    num_mpi_neighbors += message.source >= 0 && node_->local_rank_by_rank[static_cast<std::size_t>(message.source)] < 0;
  text << "neighbours: " << num_neighbors_in_place_ << " read in place, "
       << num_neighbors_on_node() - num_neighbors_in_place_ << " on the node by copy, " << num_mpi_neighbors
       << " by MPI\n";
  if (node_->local_size > peers_->num_usable_cpus())
    text << "more ranks than CPUs here, " << node_->local_size << " on " << peers_->num_usable_cpus()
         << ": who waits yields soon\n";
  int number = 0;
  for (const auto& field : fields_) {
    text << "field " << number++
         << (field->is_in_place() ? ": one array with its neighbours" : ": ghost cells of its own") << ", "
         << field->memory().explain();
    char huge[128];
    std::snprintf(huge, sizeof huge,
                  "; mapped by huge pages here: %.1f MiB; %.0f %% of its pages are one rank's alone\n",
                  static_cast<double>(field->memory().huge_page_backed_bytes()) / (1 << 20),
                  100 * field->share_of_unshared_pages(*node_, layout_, placement_));
    text << huge;
  }
  for (const auto& cached : exchanges_)
    text << "exchange of " << cached.fields.size() << " field(s)" << (cached.should_add ? ", reversed" : "") << ": "
         << cached.exchange->spec().name << "\n";
  return text.str();
}

}  // namespace nearfield::halo

// A grid: the positions of ranks, its fields, and the phases of their exchanges.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "halo/error.hpp"
#include "halo/exchange.hpp"
#include "halo/field.hpp"
#include "halo/peers.hpp"
#include "plan/costs_file.hpp"

namespace nearfield::halo {

struct GridOptions {
  int dimensions = 1;
  Layout layout;  ///< dims: 0 for those to be chosen
  bool reorder = true;
  std::string protocol = "auto";
  double limit_s = 600;
  std::string costs;  ///< a file of rank 0; empty: that of NEARFIELD_HALO_COSTS there, else the defaults
};

/// Construction and destruction are collective over the communicator, and so is a first exchange of fields.
class Grid final : public ExchangeContext {
 public:
  Grid(MPI_Comm comm, const GridOptions& options);
  ~Grid() override;

  int dimensions() const { return dimensions_; }
  const Layout& layout() const { return layout_; }
  const Ranks& place() const { return placement_.place_of[static_cast<std::size_t>(node_->rank)]; }
  Box own() const { return layout_.own(place()); }
  const Node& node() const override { return *node_; }
  const planning::Costs& costs() const override { return known_.costs; }
  std::string costs_text() const { return planning::costs_text(known_); }
  int ranks_per_node() const { return ranks_per_node_; }
  int neighbours_in_place() const { return neighbours_in_place_; }
  int neighbours_on_node() const { return peers_->count(); }
  const ProtocolSpec& spec() const { return *spec_; }
  std::string explain() const;  ///< in explain.cpp

  Field& create_field(std::size_t cell_bytes, Type type, bool ghosted);
  void free_field(const Field& field);

  /// Returns nullptr if nothing has to move because all neighbours' cells are read in place.
  Exchange* exchange_of(std::span<Field* const> fields, const Widths& widths, bool add);
  std::unique_ptr<Exchange> exchange_of(const std::vector<Array>& arrays, const std::string& protocol, bool add);

  void start(Exchange* exchange);
  void finish();
  bool under_way(const Exchange* exchange) const { return under_way_ && current_ == exchange; }

  void wait_for_readers(const Move& move) override { peers_->wait_for_readers(move, current_); }

 private:
  void share_memory(MPI_Comm comm, const ProtocolSpec& spec);
  void find_peers();
  /// Returns what this rank sends and receives to fill its ghost cells of these widths: one message for each
  /// displacement, in the same order on all ranks. `in_place` leaves out cells that are read in place; `add` reverses
  /// the roles. In schedule.cpp.
  std::vector<Message> messages(const Widths& widths, bool in_place, bool add) const;
  /// Returns an exchange by the currently fastest protocol, judged by its slowest rank. Collective; not between start
  /// and finish. In autotuning.cpp.
  std::unique_ptr<Exchange> fastest(const Move& move);

  int dimensions_;
  Layout layout_;
  const ProtocolSpec* spec_;
  bool debug_ = false;
  planning::CostsWithOrigin known_;
  std::string note_;
  int ranks_per_node_ = 1;
  std::vector<std::pair<Ranks, double>> splits_;  ///< the best ones, with their predicted time in ns
  std::unique_ptr<Node> node_;
  Placement placement_;
  std::unique_ptr<Segment> board_memory_;
  std::optional<Peers> peers_;
  int neighbours_in_place_ = 0;
  bool under_way_ = false;
  Exchange* current_ = nullptr;
  std::vector<std::unique_ptr<Field>> fields_;
  int fields_made_ = 0;
  struct Known {
    std::vector<Field*> fields;
    Widths widths;
    bool add;
    std::unique_ptr<Exchange> exchange;
  };
  std::vector<Known> exchanges_;  ///< in order of creation, so that all ranks free them in the same order
  bool all_in_place_ = false;
};

}  // namespace nearfield::halo

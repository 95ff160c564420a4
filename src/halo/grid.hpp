// A grid of cells that is decomposed over ranks: the places of the ranks, fields, and the phases of halo exchanges.
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
  Layout layout;  ///< dims that are 0 are chosen by the grid
  bool reorder = true;
  std::string protocol = "auto";
  double limit_s = 600;
  std::string costs;  ///< costs file on rank 0; empty: the file that NEARFIELD_HALO_COSTS names there, else defaults
};

/// Construction and destruction are collective over the communicator, and so is the first exchange of a set of fields.
class Grid final : public ExchangeContext {
 public:
  Grid(MPI_Comm comm, const GridOptions& options);
  ~Grid() override;

  int dimensions() const { return dimensions_; }
  const Layout& layout() const { return layout_; }
  const Ranks& own_place() const { return placement_.place_of[static_cast<std::size_t>(node_->rank)]; }
  Box own_cells() const { return layout_.cells_of(own_place()); }
  const Node& node() const override { return *node_; }
  const planning::Costs& costs() const override { return known_.costs; }
  std::string costs_text() const { return planning::costs_text(known_); }
  int ranks_per_node() const { return ranks_per_node_; }
  int neighbours_in_place() const { return neighbours_in_place_; }
  int neighbours_on_node() const { return peers_->peer_count(); }
  const ProtocolSpec& spec() const { return *spec_; }
  std::string explain() const;  ///< defined in explain.cpp

  Field& create_field(std::size_t cell_bytes, NumberType type, bool ghosted);
  void free_field(const Field& field);

  /// Returns the exchange of these fields, which the first call sets up; nullptr if no cells move, because all
  /// neighbours' cells are read in place.
  HaloExchange* exchange_of(std::span<Field* const> fields, const Widths& widths, bool add);
  std::unique_ptr<HaloExchange> exchange_of(const std::vector<Array>& arrays, const std::string& protocol, bool add);

  void start(HaloExchange* exchange);
  void finish();
  bool is_under_way(const HaloExchange* exchange) const { return under_way_ && current_ == exchange; }

  void wait_for_readers(const ExchangePlan& move) override { peers_->wait_for_readers(move, current_); }

 private:
  void share_memory(MPI_Comm comm, const ProtocolSpec& spec);
  void find_peers();
  /// Returns the messages that fill the ghost cells of these widths: one message per displacement in the grid of ranks,
  /// in the same order on all ranks. `in_place` leaves out cells that are read in place; `add` swaps sender and
  /// receiver. Defined in schedule.cpp.
  std::vector<Message> plan_messages(const Widths& widths, bool in_place, bool add) const;
  /// Times all protocols, and returns an exchange by the one that is fastest on its slowest rank. Collective; must not
  /// be called between start and finish. Defined in autotuning.cpp.
  std::unique_ptr<HaloExchange> make_fastest_exchange(const ExchangePlan& move);

  int dimensions_;
  Layout layout_;
  const ProtocolSpec* spec_;
  bool debug_ = false;
  planning::CostsWithOrigin known_;
  std::string note_;
  int ranks_per_node_ = 1;
  bool spans_nodes_ = false;
  std::vector<std::pair<Ranks, double>> splits_;  ///< the best decompositions, with predicted exchange times in ns
  std::unique_ptr<Node> node_;
  Placement placement_;
  std::unique_ptr<Segment> board_memory_;
  std::optional<Peers> peers_;
  int neighbours_in_place_ = 0;
  bool under_way_ = false;
  HaloExchange* current_ = nullptr;
  std::vector<std::unique_ptr<Field>> fields_;
  int fields_made_ = 0;
  struct CachedExchange {
    std::vector<Field*> fields;
    Widths widths;
    bool add;
    std::unique_ptr<HaloExchange> exchange;
  };
  std::vector<CachedExchange> exchanges_;  ///< in order of creation, so that all ranks free them in the same order
  bool all_in_place_ = false;
};

}  // namespace nearfield::halo

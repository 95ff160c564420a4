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

/// Construction, destruction and the first exchange of a set of fields are collective over the communicator.
class Grid final : public ExchangeContext {
 public:
  Grid(MPI_Comm comm, const GridOptions& options);
  ~Grid() override;

  int dimensions() const { return dimensions_; }
  const Layout& layout() const { return layout_; }
  const Ranks& own_place() const { return placement_.place_by_rank[static_cast<std::size_t>(node_->rank)]; }
  Box own_cells() const { return layout_.cells_of(own_place()); }
  const Node& node() const override { return *node_; }
  const planning::Costs& costs() const override { return costs_with_origin_.costs; }
  std::string format_costs() const { return planning::format_costs(costs_with_origin_); }
  int ranks_per_node() const { return min_ranks_per_node_; }
  int num_neighbors_in_place() const { return num_neighbors_in_place_; }
  int num_neighbors_on_node() const { return peers_->num_peers(); }
  const ProtocolSpec& spec() const { return *protocol_spec_; }
  std::string explain() const;  ///< defined in explain.cpp

  Field& create_field(std::size_t cell_bytes, NumberType type, bool ghosted);
  void free_field(const Field& field);

  /// Returns the exchange of these fields, which the first call sets up. Returns nullptr if all ranks read all their
  /// neighbours' cells in place, so that no cells move.
  HaloExchange* exchange_of(std::span<Field* const> fields, const Widths& widths, bool should_add);
  std::unique_ptr<HaloExchange> exchange_of(const std::vector<Array>& arrays, const std::string& protocol,
                                            bool should_add);

  void start(HaloExchange* exchange);
  void finish();
  bool is_under_way(const HaloExchange* exchange) const { return is_phase_under_way_ && current_exchange_ == exchange; }

  void wait_until_cells_are_fetched(const ExchangePlan& plan) override {
    peers_->wait_until_cells_are_fetched(plan, current_exchange_);
  }

 private:
  void share_memory(MPI_Comm comm, const ProtocolSpec& spec);
  void find_peers();
  /// Returns the messages that fill the ghost cells of these widths: one message per displacement in the grid of ranks,
  /// in the same order on all ranks. `excludes_in_place` leaves out cells that are read in place; `should_add` swaps
  /// sender and receiver. Defined in schedule.cpp.
  std::vector<Message> plan_messages(const Widths& widths, bool excludes_in_place, bool should_add) const;
  /// Times all protocols, and returns an exchange by the one that is fastest on its slowest rank. Collective; must not
  /// be called between start and finish. Defined in autotuning.cpp.
  std::unique_ptr<HaloExchange> make_fastest_exchange(const ExchangePlan& plan);

  int dimensions_;
  Layout layout_;
  const ProtocolSpec* protocol_spec_;
  bool is_debugging_ = false;
  planning::CostsWithOrigin costs_with_origin_;
  std::string fallback_note_;
  int min_ranks_per_node_ = 1;
  bool spans_nodes_ = false;
  std::vector<std::pair<Ranks, double>>
      best_decompositions_;  ///< the best decompositions, with predicted exchange times in ns
  std::unique_ptr<Node> node_;
  Placement placement_;
  std::unique_ptr<Segment> signal_board_memory_;
  std::optional<Peers> peers_;
  int num_neighbors_in_place_ = 0;
  bool is_phase_under_way_ = false;
  HaloExchange* current_exchange_ = nullptr;
  std::vector<std::unique_ptr<Field>> fields_;
  int num_created_fields_ = 0;
  struct CachedExchange {
    std::vector<Field*> fields;
    Widths widths;
    bool should_add;
    std::unique_ptr<HaloExchange> exchange;
  };
  std::vector<CachedExchange> exchanges_;  ///< in order of creation, so that all ranks free them in the same order
  bool reads_all_cells_in_place_ = false;
};

}  // namespace nearfield::halo

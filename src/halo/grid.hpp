// A grid: places, fields, and the phases in which neighbours tell each other that their cells may be read.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "halo/error.hpp"
#include "halo/field.hpp"
#include "halo/protocol.hpp"
#include "plan/costs_file.hpp"

namespace nearfield::halo {

struct GridOptions {
  int dimensions = 1;
  Layout layout;  ///< dims: 0 where they are to be chosen
  bool reorder = true;
  std::string protocol = "auto";
  double limit_s = 600;
  std::string costs;  ///< a file of rank 0; empty: as NEARFIELD_HALO_COSTS says there, else the defaults
};

/// What one call exchanges. Owned by the grid if of its fields, else by the caller.
class Exchange {
 public:
  Exchange(Move move, const ProtocolSpec& spec, Surroundings& around, bool poison);
  const ProtocolSpec& spec() const { return spec_; }
  void prepare();
  void start() { protocol_->start(); }
  void finish() { protocol_->finish(); }
  void progress() { protocol_->progress(); }

 private:
  const ProtocolSpec& spec_;
  std::unique_ptr<Protocol> protocol_;
  std::optional<Move> poisoned_;  ///< debugging: ghost cells are damaged from start to finish
};

/// Collective over the communicator to make, to free, and to start what has not been exchanged before.
class Grid final : public Surroundings {
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
  int neighbours_on_node() const { return static_cast<int>(peers_.size()); }
  std::string explain() const;

  Field& create_field(std::size_t cell_bytes, Type type, bool ghosted);
  void free_field(const Field& field);

  /// nullptr when nothing has to move: neighbours' cells are all in place.
  Exchange* exchange_of(std::span<Field* const> fields, const Widths& widths, bool add);
  std::unique_ptr<Exchange> exchange_of(const std::vector<Array>& arrays, const std::string& protocol, bool add);

  void start(Exchange* exchange);
  void finish();
  bool under_way(const Exchange* exchange) const { return under_way_ && current_ == exchange; }

  void settle(const Move& move) override;

 private:
  struct Peer {
    int local;
    Signal* mine;                         ///< to it
    Signal* theirs;                       ///< from it
    std::uint64_t told = 0, awaited = 0;  ///< of `taken`
  };

  Peer& peer(int rank);
  void share_memory(MPI_Comm comm, const ProtocolSpec& spec);
  void find_peers();
  std::vector<Message> messages(const Widths& widths, bool in_place, bool add) const;
  std::unique_ptr<Exchange> fastest(const Move& move);
  void be_patient(int local, const char* what);
  void await_ready();

  int dimensions_;
  Layout layout_;
  const ProtocolSpec* spec_;
  double limit_s_;
  bool debug_ = false;
  int spins_ = 0, cpus_ = 1;
  bool processes_seen_ = false;
  planning::KnownCosts known_;
  std::string note_;
  int ranks_per_node_ = 1;
  std::vector<std::pair<Ranks, double>> splits_;  ///< the best, with their predicted time in ns
  std::unique_ptr<Node> node_;
  Placement placement_;
  std::unique_ptr<Segment> board_memory_;
  Board board_;
  std::vector<Peer> peers_;
  std::vector<int> peer_index_;  ///< local rank -> index into peers_, or -1
  int neighbours_in_place_ = 0;
  std::uint64_t phase_ = 0;
  bool under_way_ = false;
  Exchange* current_ = nullptr;
  double waiting_since_ = 0, looked_at_ = 0;
  std::vector<std::unique_ptr<Field>> fields_;
  int fields_made_ = 0;
  struct Known {
    std::vector<Field*> fields;
    Widths widths;
    bool add;
    std::unique_ptr<Exchange> exchange;
  };
  std::vector<Known> exchanges_;  ///< in the order of creation, so that all ranks free them alike
  bool all_in_place_ = false;
};

}  // namespace nearfield::halo

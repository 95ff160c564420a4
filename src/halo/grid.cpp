#include "halo/grid.hpp"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "halo/costs.hpp"
#include "halo/decomposition.hpp"

namespace nearfield::halo {

Grid::Grid(MPI_Comm comm, const GridOptions& options) : dimensions_(options.dimensions), layout_(options.layout) {
  int ranks = 0;
  MPI_Comm_size(comm, &ranks);
  check_decomposition(layout_, dimensions_, ranks);
  const char* debug = std::getenv("NEARFIELD_HALO_DEBUG");
  debug_ = debug && *debug && *debug != '0';
  const bool chosen = options.protocol == "auto" || options.protocol.empty();
  spec_ = chosen ? (debug_ ? &direct_protocol : &in_place_protocol) : &find_protocol(options.protocol);
  try {
    share_memory(comm, *spec_);
  } catch (const Error& error) {
    if (!chosen || error.code != Code::unavailable) throw;
    note_ = std::string(error.what()) + "; all neighbours are reached by MPI";
    spec_ = &persistent_protocol;
    share_memory(comm, *spec_);
  }
  if (spec_->problem)
    if (const auto problem = spec_->problem(*node_); !problem.empty()) throw Error(Code::unavailable, problem);
  ranks_per_node_ = min_ranks_per_node(*node_);
  known_ = known_costs(options.costs, *node_);
  const auto plans = decompositions(layout_, dimensions_, known_.costs, *node_, ranks_per_node_);
  const auto& plan = plans.front();
  for (std::size_t i = 0; i < plans.size() && i < 4; ++i) splits_.push_back({plans[i].dims, plans[i].time_ns});
  layout_.dims = plan.dims;
  placement_ = halo::place(layout_, node_->node_of, options.reorder ? plan.node_dims : Ranks{}, !spec_->in_place);
  peers_.emplace(*node_, Board(board_memory_->data(), node_->local_size), options.limit_s > 0 ? options.limit_s : 600);
  find_peers();
  MPI_Barrier(node_->comm);
}

Grid::~Grid() = default;

// Creates the node with signals in shared memory. If the protocol is MPI's own, which needs none, the rank is alone in
// it.
void Grid::share_memory(MPI_Comm comm, const ProtocolSpec& spec) {
  node_ = std::make_unique<Node>(comm, spec.shared_only);
  const auto bytes = Board::bytes(node_->local_size);
  const auto part = bytes / static_cast<std::size_t>(node_->local_size);
  const auto begin = part * static_cast<std::size_t>(node_->local_rank);
  board_memory_ = std::make_unique<Segment>(*node_, bytes, begin, begin + part, spec.backing);
}

// Peers are the node's ranks whose cells this rank reads, or that read its cells.
void Grid::find_peers() {
  const auto group = [&](int rank) { return placement_.group_of[static_cast<std::size_t>(rank)]; };
  for (const auto& message : messages(layout_.halo, false, false))
    for (const int rank : {message.to, message.from})
      if (peers_->add(rank) && spec_->in_place && group(rank) == group(node_->rank)) ++neighbours_in_place_;
  bool nothing = true;
  for (const auto& message : messages(layout_.halo, spec_->in_place, false))
    nothing = nothing && message.send.empty() && message.receive.empty();
  int all = nothing;
  MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_MIN, node_->comm);
  all_in_place_ = all && spec_->in_place;
}

Field& Grid::create_field(std::size_t cell_bytes, Type type, bool ghosted) {
  const FieldShape shape{cell_bytes, type, spec_->in_place && !ghosted, spec_->backing, fields_made_++};
  fields_.push_back(std::make_unique<Field>(*node_, layout_, placement_, shape));
  MPI_Barrier(node_->local);  // until all memory is zeroed
  return *fields_.back();
}

void Grid::free_field(const Field& field) {
  std::erase_if(exchanges_, [&](const Known& known) {
    return std::find(known.fields.begin(), known.fields.end(), &field) != known.fields.end();
  });
  std::erase_if(fields_, [&](const auto& owned) { return owned.get() == &field; });
}

Exchange* Grid::exchange_of(std::span<Field* const> fields, const Widths& widths, bool add) {
  bool in_place = true;
  for (const auto* field : fields) in_place = in_place && field->in_place();
  if (fields.empty() || (in_place && all_in_place_ && !add)) return nullptr;
  for (const auto& known : exchanges_)
    if (known.add == add && known.widths == widths && std::ranges::equal(known.fields, fields))
      return known.exchange.get();
  for (const auto* field : fields) {
    if (field->in_place() != in_place)
      throw Error(Code::argument, "fields with ghost cells of their own and without cannot be exchanged in one call");
    if (add && field->in_place())
      throw Error(Code::argument, "only fields with ghost cells of their own can be accumulated: create it as ghosted");
  }
  Move move;
  move.messages = messages(widths, in_place, add);
  for (const auto* field : fields) move.fields.push_back(field->cells());
  move.add = add;
  move.in_place = in_place;
  const bool free_choice = spec_->in_place && !in_place;
  const ProtocolSpec& spec = free_choice ? cheapest(*this, move) : *spec_;
  exchanges_.push_back(
      {{fields.begin(), fields.end()}, widths, add, std::make_unique<Exchange>(std::move(move), spec, *this, debug_)});
  return exchanges_.back().exchange.get();
}

std::unique_ptr<Exchange> Grid::exchange_of(const std::vector<Array>& arrays, const std::string& protocol, bool add) {
  Move move;
  move.messages = messages(layout_.halo, false, add);
  for (const auto& array : arrays) move.fields.push_back({array, {}});
  move.add = add;
  if (protocol == "measured") return fastest(move);
  const bool chosen = protocol.empty() || protocol == "auto";
  const ProtocolSpec& best = spec_->shared_only ? cheapest(*this, move) : persistent_protocol;
  const ProtocolSpec& spec = chosen ? best : find_protocol(protocol);
  if (spec.in_place || spec.needs_arrays)
    throw Error(Code::argument, std::string("'") + spec.name + "' moves fields of the library only, not your arrays");
  if (spec.shared_only && !spec_->shared_only)
    throw Error(Code::argument,
                std::string("'") + spec.name + "' needs a grid that shares memory, not one by '" + spec_->name + "'");
  if (spec.problem)
    if (const auto problem = spec.problem(*node_); !problem.empty()) throw Error(Code::unavailable, problem);
  return std::make_unique<Exchange>(std::move(move), spec, *this, debug_);
}

void Grid::start(Exchange* exchange) {
  if (under_way_) throw Error(Code::order, "start was called twice without finish in between");
  if (exchange) exchange->prepare();
  peers_->publish();
  under_way_ = true;
  current_ = exchange;
  if (exchange) exchange->start();
}

void Grid::finish() {
  if (!under_way_) throw Error(Code::order, "finish was called without start");
  peers_->await_ready(current_);
  under_way_ = false;
  if (current_) current_->finish();
  current_ = nullptr;
}

}  // namespace nearfield::halo

#include "halo/grid.hpp"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/job_watch.hpp"
#include "halo/costs.hpp"
#include "halo/decomposition.hpp"
#include "halo/node_watch.hpp"

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
    if (!chosen || error.code != ErrorCode::unavailable) throw;
    note_ = std::string(error.what()) + "; all neighbours are reached by MPI";
    spec_ = &persistent_protocol;
    share_memory(comm, *spec_);
  }
  if (spec_->problem)
    if (const auto problem = spec_->problem(*node_); !problem.empty()) throw Error(ErrorCode::unavailable, problem);
  ranks_per_node_ = min_ranks_per_node(*node_);
  known_ = find_costs(options.costs, *node_);
  const auto plans = rank_decompositions(layout_, dimensions_, known_.costs, *node_, ranks_per_node_);
  const auto& plan = plans.front();
  for (std::size_t i = 0; i < plans.size() && i < 4; ++i) splits_.push_back({plans[i].dims, plans[i].time_ns});
  layout_.dims = plan.dims;
  placement_ = halo::place_ranks(layout_, node_->node_of, options.reorder ? plan.node_dims : Ranks{}, !spec_->in_place);
  peers_.emplace(*node_, SignalBoard(board_memory_->data(), node_->local_size),
                 options.limit_s > 0 ? options.limit_s : 600);
  find_peers();
  spans_nodes_ = std::ranges::any_of(node_->node_of, [&](int other) { return other != node_->node_of[0]; });
  if (spans_nodes_) watch_nodes_of(*node_);
  MPI_Barrier(node_->comm);
}

Grid::~Grid() = default;

// Creates node_, and the signals of its ranks in shared memory. With a protocol that uses MPI only, every rank is alone
// in its node_ and shares no memory.
void Grid::share_memory(MPI_Comm comm, const ProtocolSpec& spec) {
  node_ = std::make_unique<Node>(comm, spec.shared_only);
  const auto bytes = SignalBoard::bytes(node_->local_size);
  const auto part = bytes / static_cast<std::size_t>(node_->local_size);
  const auto begin = part * static_cast<std::size_t>(node_->local_rank);
  board_memory_ = std::make_unique<Segment>(*node_, bytes, begin, begin + part, spec.backing);
}

// Finds the peers: ranks on this node whose cells this rank reads, or which read its cells.
void Grid::find_peers() {
  const auto group = [&](int rank) { return placement_.group_of[static_cast<std::size_t>(rank)]; };
  for (const auto& message : plan_messages(layout_.halo, false, false))
    for (const int rank : {message.to, message.from})
      if (peers_->add_peer(rank) && spec_->in_place && group(rank) == group(node_->rank)) ++neighbours_in_place_;
  bool nothing = true;
  for (const auto& message : plan_messages(layout_.halo, spec_->in_place, false))
    nothing = nothing && message.send.empty() && message.receive.empty();
  int all = nothing;
  MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_MIN, node_->comm);
  all_in_place_ = all && spec_->in_place;
}

Field& Grid::create_field(std::size_t cell_bytes, NumberType type, bool ghosted) {
  const FieldShape shape{cell_bytes, type, spec_->in_place && !ghosted, spec_->backing, fields_made_++};
  fields_.push_back(std::make_unique<Field>(*node_, layout_, placement_, shape));
  MPI_Barrier(node_->local);  // waits until all ranks have zeroed their memory
  return *fields_.back();
}

void Grid::free_field(const Field& field) {
  std::erase_if(exchanges_, [&](const CachedExchange& cached) {
    return std::find(cached.fields.begin(), cached.fields.end(), &field) != cached.fields.end();
  });
  std::erase_if(fields_, [&](const auto& owned) { return owned.get() == &field; });
}

HaloExchange* Grid::exchange_of(std::span<Field* const> fields, const Widths& widths, bool add) {
  bool in_place = true;
  for (const auto* field : fields) in_place = in_place && field->is_in_place();
  if (fields.empty() || (in_place && all_in_place_ && !add)) return nullptr;
  for (const auto& cached : exchanges_)
    if (cached.add == add && cached.widths == widths && std::ranges::equal(cached.fields, fields))
      return cached.exchange.get();
  for (const auto* field : fields) {
    if (field->is_in_place() != in_place)
      throw Error(ErrorCode::argument,
                  "fields with ghost cells of their own and without cannot be exchanged in one call");
    if (add && field->is_in_place())
      throw Error(ErrorCode::argument,
                  "only fields with ghost cells of their own can be accumulated: create it as ghosted");
  }
  ExchangePlan move;
  move.messages = plan_messages(widths, in_place, add);
  for (const auto* field : fields) move.fields.push_back(field->cells());
  move.add = add;
  move.in_place = in_place;
  const bool free_choice = spec_->in_place && !in_place;
  const ProtocolSpec& spec = free_choice ? find_cheapest_protocol(*this, move) : *spec_;
  exchanges_.push_back({{fields.begin(), fields.end()},
                        widths,
                        add,
                        std::make_unique<HaloExchange>(std::move(move), spec, *this, debug_)});
  return exchanges_.back().exchange.get();
}

std::unique_ptr<HaloExchange> Grid::exchange_of(const std::vector<Array>& arrays, const std::string& protocol,
                                                bool add) {
  ExchangePlan move;
  move.messages = plan_messages(layout_.halo, false, add);
  for (const auto& array : arrays) move.fields.push_back({array, {}});
  move.add = add;
  if (protocol == "measured") return make_fastest_exchange(move);
  const bool chosen = protocol.empty() || protocol == "auto";
  const ProtocolSpec& best = spec_->shared_only ? find_cheapest_protocol(*this, move) : persistent_protocol;
  const ProtocolSpec& spec = chosen ? best : find_protocol(protocol);
  if (spec.in_place || spec.needs_arrays)
    throw Error(ErrorCode::argument,
                std::string("'") + spec.name + "' moves fields of the library only, not your arrays");
  if (spec.shared_only && !spec_->shared_only)
    throw Error(ErrorCode::argument,
                std::string("'") + spec.name + "' needs a grid that shares memory, not one by '" + spec_->name + "'");
  if (spec.problem)
    if (const auto problem = spec.problem(*node_); !problem.empty()) throw Error(ErrorCode::unavailable, problem);
  return std::make_unique<HaloExchange>(std::move(move), spec, *this, debug_);
}

void Grid::start(HaloExchange* exchange) {
  if (under_way_) throw Error(ErrorCode::order, "start was called twice without finish in between");
  if (exchange) exchange->prepare();
  peers_->publish_phase();
  under_way_ = true;
  current_ = exchange;
  if (exchange) exchange->start();
}

void Grid::finish() {
  if (!under_way_) throw Error(ErrorCode::order, "finish was called without start");
  const NodeWait wait(spans_nodes_);
  peers_->await_ready(current_);
  under_way_ = false;
  if (current_) current_->finish();
  current_ = nullptr;
}

}  // namespace nearfield::halo

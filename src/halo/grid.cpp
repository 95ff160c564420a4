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
  is_debugging_ = debug && *debug && *debug != '0';
  const bool is_chosen_automatically = options.protocol == "auto" || options.protocol.empty();
  protocol_spec_ = is_chosen_automatically ? (is_debugging_ ? &direct_protocol : &in_place_protocol)
                                           : &find_protocol(options.protocol);
  try {
    share_memory(comm, *protocol_spec_);
  } catch (const Error& error) {
    if (!is_chosen_automatically || error.code != ErrorCode::unavailable) throw;
    fallback_note_ = std::string(error.what()) + "; all neighbours are reached by MPI";
    protocol_spec_ = &persistent_protocol;
    share_memory(comm, *protocol_spec_);
  }
  if (protocol_spec_->unavailability_reason)
    if (const auto problem = protocol_spec_->unavailability_reason(*node_); !problem.empty())
      throw Error(ErrorCode::unavailable, problem);
  min_ranks_per_node_ = min_ranks_per_node(*node_);
  costs_with_origin_ = find_costs(options.costs, *node_);
  const auto plans =
      list_decompositions_by_time(layout_, dimensions_, costs_with_origin_.costs, *node_, min_ranks_per_node_);
  const auto& plan = plans.front();
  for (std::size_t i = 0; i < plans.size() && i < 4; ++i)
    best_decompositions_.push_back({plans[i].dims, plans[i].time_ns});
  layout_.dims = plan.dims;
  placement_ = halo::place_ranks(layout_, node_->node_by_rank, options.reorder ? plan.node_dims : Ranks{},
                                 !protocol_spec_->reads_in_place);
  peers_.emplace(*node_, SignalBoard(signal_board_memory_->data(), node_->local_size),
                 options.limit_s > 0 ? options.limit_s : 600);
  find_peers();
  spans_nodes_ = std::ranges::any_of(node_->node_by_rank, [&](int other) { return other != node_->node_by_rank[0]; });
  if (spans_nodes_) watch_nodes_of_grid(*node_);
  MPI_Barrier(node_->comm);
}

Grid::~Grid() = default;

// Creates node_, and the signals of its ranks in shared memory. With a protocol that uses MPI only, every rank is alone
// in its node_ and shares no memory.
void Grid::share_memory(MPI_Comm comm, const ProtocolSpec& spec) {
  node_ = std::make_unique<Node>(comm, spec.is_intra_node_only);
  const auto bytes = SignalBoard::bytes(node_->local_size);
  const auto part = bytes / static_cast<std::size_t>(node_->local_size);
  const auto begin = part * static_cast<std::size_t>(node_->local_rank);
  signal_board_memory_ = std::make_unique<Segment>(*node_, bytes, begin, begin + part, spec.backing);
}

// Finds the peers: ranks on this node whose cells this rank reads, or which read its cells.
void Grid::find_peers() {
  const auto group = [&](int rank) { return placement_.array_group_by_rank[static_cast<std::size_t>(rank)]; };
  for (const auto& message : plan_messages(layout_.halo, false, false))
    for (const int rank : {message.destination, message.source})
      if (peers_->add_peer(rank) && protocol_spec_->reads_in_place && group(rank) == group(node_->rank))
        ++num_neighbors_in_place_;
  bool moves_no_cells = true;
  for (const auto& message : plan_messages(layout_.halo, protocol_spec_->reads_in_place, false))
    moves_no_cells = moves_no_cells && message.send.empty() && message.receive.empty();
  int all = moves_no_cells;
  MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_MIN, node_->comm);
  reads_all_cells_in_place_ = all && protocol_spec_->reads_in_place;
}

Field& Grid::create_field(std::size_t cell_bytes, NumberType type, bool ghosted) {
  const FieldShape shape{cell_bytes, type, protocol_spec_->reads_in_place && !ghosted, protocol_spec_->backing,
                         num_created_fields_++};
  fields_.push_back(std::make_unique<Field>(*node_, layout_, placement_, shape));
  MPI_Barrier(node_->node_comm);  // waits until all ranks have zeroed their memory
  return *fields_.back();
}

void Grid::free_field(const Field& field) {
  std::erase_if(exchanges_, [&](const CachedExchange& cached) {
    return std::find(cached.fields.begin(), cached.fields.end(), &field) != cached.fields.end();
  });
  std::erase_if(fields_, [&](const auto& owned) { return owned.get() == &field; });
}

HaloExchange* Grid::exchange_of(std::span<Field* const> fields, const Widths& widths, bool should_add) {
  bool is_in_place = true;
  for (const auto* field : fields) is_in_place = is_in_place && field->is_in_place();
  if (fields.empty() || (is_in_place && reads_all_cells_in_place_ && !should_add)) return nullptr;
  for (const auto& cached : exchanges_)
    if (cached.should_add == should_add && cached.widths == widths && std::ranges::equal(cached.fields, fields))
      return cached.exchange.get();
  for (const auto* field : fields) {
    if (field->is_in_place() != is_in_place)
      throw Error(ErrorCode::argument,
                  "fields with ghost cells of their own and without cannot be exchanged in one call");
    if (should_add && field->is_in_place())
      throw Error(ErrorCode::argument,
                  "only fields with ghost cells of their own can be accumulated: create it as ghosted");
  }
  ExchangePlan plan;
  plan.messages = plan_messages(widths, is_in_place, should_add);
  for (const auto* field : fields) plan.fields.push_back(field->cells());
  plan.should_add = should_add;
  plan.reads_in_place = is_in_place;
  const bool free_choice = protocol_spec_->reads_in_place && !is_in_place;
  const ProtocolSpec& spec = free_choice ? find_cheapest_protocol(*this, plan) : *protocol_spec_;
  exchanges_.push_back({{fields.begin(), fields.end()},
                        widths,
                        should_add,
                        std::make_unique<HaloExchange>(std::move(plan), spec, *this, is_debugging_)});
  return exchanges_.back().exchange.get();
}

std::unique_ptr<HaloExchange> Grid::exchange_of(const std::vector<Array>& arrays, const std::string& protocol,
                                                bool should_add) {
  ExchangePlan plan;
  plan.messages = plan_messages(layout_.halo, false, should_add);
  for (const auto& array : arrays) plan.fields.push_back({array, {}});
  plan.should_add = should_add;
  if (protocol == "measured") return make_fastest_exchange(plan);
  const bool is_chosen_automatically = protocol.empty() || protocol == "auto";
  const ProtocolSpec& best =
      protocol_spec_->is_intra_node_only ? find_cheapest_protocol(*this, plan) : persistent_protocol;
  const ProtocolSpec& spec = is_chosen_automatically ? best : find_protocol(protocol);
  if (spec.reads_in_place || spec.needs_arrays)
    throw Error(ErrorCode::argument,
                std::string("'") + spec.name + "' moves fields of the library only, not your arrays");
  if (spec.is_intra_node_only && !protocol_spec_->is_intra_node_only)
    throw Error(ErrorCode::argument, std::string("'") + spec.name + "' needs a grid that shares memory, not one by '" +
                                         protocol_spec_->name + "'");
  if (spec.unavailability_reason)
    if (const auto problem = spec.unavailability_reason(*node_); !problem.empty())
      throw Error(ErrorCode::unavailable, problem);
  return std::make_unique<HaloExchange>(std::move(plan), spec, *this, is_debugging_);
}

void Grid::start(HaloExchange* exchange) {
  if (is_phase_under_way_) throw Error(ErrorCode::order, "start was called twice without finish in between");
  if (exchange) exchange->prepare();
  peers_->publish_phase();
  is_phase_under_way_ = true;
  current_exchange_ = exchange;
  if (exchange) exchange->start();
}

void Grid::finish() {
  if (!is_phase_under_way_) throw Error(ErrorCode::order, "finish was called without start");
  const NodeWait wait(spans_nodes_);
  peers_->await_ready(current_exchange_);
  is_phase_under_way_ = false;
  if (current_exchange_) current_exchange_->finish();
  current_exchange_ = nullptr;
}

}  // namespace nearfield::halo

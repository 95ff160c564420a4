#include "halo/protocol.hpp"

#include <algorithm>

#include "halo/error.hpp"

namespace nearfield::halo {
namespace {

// Fills the ghost cells whose owner is the rank itself, in a periodic dimension with one rank.
class PeriodicSelfCopies final : public Protocol {
 public:
  explicit PeriodicSelfCopies(ExchangePlan plan) : plan_(std::move(plan)) {}
  void finish_exchange() override {
    for (const auto& field : plan_.fields)
      for (const auto& message : plan_.messages)
        for (const auto& strip : message.receive)
          field.local_array.copy_or_add(strip.local_box.lo, field.local_array.at(strip.neighbor_box.lo),
                                        strip.extents(), plan_.should_add);
  }

 private:
  ExchangePlan plan_;
};

class CompositeProtocol final : public Protocol {
 public:
  void add(std::unique_ptr<Protocol> part) { parts_.push_back(std::move(part)); }
  void prepare_exchange() override {
    for (const auto& part : parts_) part->prepare_exchange();
  }
  void start_exchange() override {
    for (const auto& part : parts_) part->start_exchange();
  }
  void finish_exchange() override {
    for (const auto& part : parts_) part->finish_exchange();
  }
  void drive_progress() override {
    for (const auto& part : parts_) part->drive_progress();
  }

 private:
  std::vector<std::unique_ptr<Protocol>> parts_;
};

// Returns the plan without the senders and receivers for which `keep(rank)` is false. The list of messages keeps its
// length and order, which are the same on all ranks.
template <class Keep>
ExchangePlan filter_messages(const ExchangePlan& plan, Keep&& keep) {
  ExchangePlan part = plan;
  for (auto& message : part.messages) {
    if (message.destination < 0 || !keep(message.destination)) {
      message.destination = -1;
      message.send.clear();
    }
    if (message.source < 0 || !keep(message.source)) {
      message.source = -1;
      message.receive.clear();
    }
  }
  return part;
}

bool moves_cells(const ExchangePlan& plan) {
  return std::any_of(plan.messages.begin(), plan.messages.end(),
                     [](const Message& m) { return !m.send.empty() || !m.receive.empty(); });
}

bool is_true_on_any_rank(const Node& node, bool is_true_on_this_rank) {
  int any = is_true_on_this_rank;
  MPI_Allreduce(MPI_IN_PLACE, &any, 1, MPI_INT, MPI_MAX, node.comm);
  return any;
}

double predict_cost_ns(const ProtocolSpec& spec, const ExchangeContext& context, const ExchangePlan& plan) {
  const Node& node = context.node();
  double cost = 0;
  for (const auto& message : plan.messages) {
    if (message.send.empty() || node.local_rank_by_rank[static_cast<std::size_t>(message.destination)] < 0) continue;
    MessageShape shape;
    shape.bytes = static_cast<double>(message_bytes(message.send, plan.fields));
    const auto& first = message.send.front().local_box;
    const auto& array = plan.fields.front().local_array;
    auto run = static_cast<double>(array.cell_bytes) * static_cast<double>(first.extents()[2]);
    if (contiguous_address(message.send, plan.fields)) run = shape.bytes;
    shape.run_bytes = run;
    cost += spec.cost_ns(shape, context.costs());
  }
  return cost;
}

}  // namespace

const ProtocolSpec& find_protocol(const std::string& name) {
  std::string names;
  for (const auto* spec : all_protocols()) {
    if (name == spec->name) return *spec;
    names += (names.empty() ? "" : ", ") + std::string(spec->name);
  }
  throw Error(ErrorCode::argument, "there is no protocol '" + name + "'; there are auto, " + names);
}

std::unique_ptr<Protocol> make_protocol(const ProtocolSpec& spec, ExchangeContext& context, ExchangePlan plan) {
  const Node& node = context.node();
  auto composite = std::make_unique<CompositeProtocol>();
  if (auto self_plan = filter_messages(plan, [&](int rank) { return rank == node.rank; }); moves_cells(self_plan))
    composite->add(std::make_unique<PeriodicSelfCopies>(std::move(self_plan)));
  const auto is_on_node = [&](int rank) { return node.local_rank_by_rank[static_cast<std::size_t>(rank)] >= 0; };
  if (!spec.is_intra_node_only) {
    auto peer_plan = filter_messages(plan, [&](int rank) { return rank != node.rank; });
    if (is_true_on_any_rank(node, moves_cells(peer_plan))) composite->add(spec.make(context, std::move(peer_plan)));
    return composite;
  }
  auto intra_node_plan = filter_messages(plan, [&](int rank) { return rank != node.rank && is_on_node(rank); });
  auto inter_node_plan = filter_messages(plan, [&](int rank) { return !is_on_node(rank); });
  if (is_true_on_any_rank(node, moves_cells(intra_node_plan)))
    composite->add(spec.make(context, std::move(intra_node_plan)));
  if (is_true_on_any_rank(node, moves_cells(inter_node_plan)))
    composite->add(persistent_protocol.make(context, std::move(inter_node_plan)));
  return composite;
}

const ProtocolSpec& find_cheapest_protocol(ExchangeContext& context, const ExchangePlan& plan) {
  const Node& node = context.node();
  const ProtocolSpec* best = &persistent_protocol;
  double best_cost = -1;
  const bool has_arrays = std::all_of(plan.fields.begin(), plan.fields.end(),
                                      [](const FieldArrays& f) { return !f.array_by_local_rank.empty(); });
  for (const auto* spec : all_protocols()) {
    if (!spec->cost_ns) continue;
    bool is_possible = has_arrays || !spec->needs_arrays;
    if (is_possible && spec->unavailability_reason) is_possible = spec->unavailability_reason(node).empty();
    double cost = is_possible ? predict_cost_ns(*spec, context, plan) : 1e300;
    MPI_Allreduce(MPI_IN_PLACE, &cost, 1, MPI_DOUBLE, MPI_MAX, node.comm);
    if (cost < 1e300 && (best_cost < 0 || cost < best_cost)) {
      best = spec;
      best_cost = cost;
    }
  }
  return *best;
}

}  // namespace nearfield::halo

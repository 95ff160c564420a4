#include "halo/protocol.hpp"

#include <algorithm>

#include "halo/error.hpp"

namespace nearfield::halo {
namespace {

// Copies the ghost cells that a rank has from itself, in a periodic dimension with one rank.
class PeriodicSelfCopies final : public Protocol {
 public:
  explicit PeriodicSelfCopies(ExchangePlan move) : move_(std::move(move)) {}
  void finish_exchange() override {
    for (const auto& field : move_.fields)
      for (const auto& message : move_.messages)
        for (const auto& strip : message.receive)
          field.mine.copy_or_add(strip.mine.lo, field.mine.at(strip.theirs.lo), strip.extents(), move_.add);
  }

 private:
  ExchangePlan move_;
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

// Returns the messages without senders and receivers for which `keep(rank)` is false. The list keeps its length and
// order, which are the same on all ranks.
template <class Keep>
ExchangePlan filter_messages(const ExchangePlan& whole, Keep&& keep) {
  ExchangePlan part = whole;
  for (auto& message : part.messages) {
    if (message.to < 0 || !keep(message.to)) {
      message.to = -1;
      message.send.clear();
    }
    if (message.from < 0 || !keep(message.from)) {
      message.from = -1;
      message.receive.clear();
    }
  }
  return part;
}

bool moves_cells(const ExchangePlan& move) {
  return std::any_of(move.messages.begin(), move.messages.end(),
                     [](const Message& m) { return !m.send.empty() || !m.receive.empty(); });
}

bool is_true_on_any_rank(const Node& node, bool is_local) {
  int any = is_local;
  MPI_Allreduce(MPI_IN_PLACE, &any, 1, MPI_INT, MPI_MAX, node.comm);
  return any;
}

double predict_cost_ns(const ProtocolSpec& spec, const ExchangeContext& around, const ExchangePlan& move) {
  const Node& node = around.node();
  double cost = 0;
  for (const auto& message : move.messages) {
    if (message.send.empty() || node.local_of[static_cast<std::size_t>(message.to)] < 0) continue;
    MessageShape shape;
    shape.bytes = static_cast<double>(message_bytes(message.send, move.fields));
    const auto& first = message.send.front().mine;
    const auto& array = move.fields.front().mine;
    auto run = static_cast<double>(array.cell_bytes) * static_cast<double>(first.extents()[2]);
    if (contiguous_address(message.send, move.fields)) run = shape.bytes;
    shape.run_bytes = run;
    cost += spec.cost_ns(shape, around.costs());
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

std::unique_ptr<Protocol> make_protocol(const ProtocolSpec& spec, ExchangeContext& around, ExchangePlan move) {
  const Node& node = around.node();
  auto all = std::make_unique<CompositeProtocol>();
  if (auto own = filter_messages(move, [&](int rank) { return rank == node.rank; }); moves_cells(own))
    all->add(std::make_unique<PeriodicSelfCopies>(std::move(own)));
  const auto on_node = [&](int rank) { return node.local_of[static_cast<std::size_t>(rank)] >= 0; };
  if (!spec.shared_only) {
    auto others = filter_messages(move, [&](int rank) { return rank != node.rank; });
    if (is_true_on_any_rank(node, moves_cells(others))) all->add(spec.make(around, std::move(others)));
    return all;
  }
  auto near = filter_messages(move, [&](int rank) { return rank != node.rank && on_node(rank); });
  auto far = filter_messages(move, [&](int rank) { return !on_node(rank); });
  if (is_true_on_any_rank(node, moves_cells(near))) all->add(spec.make(around, std::move(near)));
  if (is_true_on_any_rank(node, moves_cells(far))) all->add(persistent_protocol.make(around, std::move(far)));
  return all;
}

const ProtocolSpec& find_cheapest_protocol(ExchangeContext& around, const ExchangePlan& move) {
  const Node& node = around.node();
  const ProtocolSpec* best = &persistent_protocol;
  double best_cost = -1;
  const bool have_arrays =
      std::all_of(move.fields.begin(), move.fields.end(), [](const FieldArrays& f) { return !f.of_local.empty(); });
  for (const auto* spec : all_protocols()) {
    if (!spec->cost_ns) continue;
    bool possible = have_arrays || !spec->needs_arrays;
    if (possible && spec->problem) possible = spec->problem(node).empty();
    double cost = possible ? predict_cost_ns(*spec, around, move) : 1e300;
    MPI_Allreduce(MPI_IN_PLACE, &cost, 1, MPI_DOUBLE, MPI_MAX, node.comm);
    if (cost < 1e300 && (best_cost < 0 || cost < best_cost)) {
      best = spec;
      best_cost = cost;
    }
  }
  return *best;
}

}  // namespace nearfield::halo

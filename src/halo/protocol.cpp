#include "halo/protocol.hpp"

#include <algorithm>

#include "halo/error.hpp"

namespace nearfield::halo {
namespace {

// Copies the cells that a rank reads from itself, in a periodic grid that is one rank wide.
class PeriodicSelfCopies final : public Protocol {
 public:
  explicit PeriodicSelfCopies(Move move) : move_(std::move(move)) {}
  void finish() override {
    for (const auto& field : move_.fields)
      for (const auto& message : move_.messages)
        for (const auto& strip : message.receive)
          field.mine.put(strip.mine.lo, field.mine.at(strip.theirs.lo), strip.extents(), move_.add);
  }

 private:
  Move move_;
};

class CompositeProtocol final : public Protocol {
 public:
  void add(std::unique_ptr<Protocol> part) { parts_.push_back(std::move(part)); }
  void prepare() override {
    for (const auto& part : parts_) part->prepare();
  }
  void start() override {
    for (const auto& part : parts_) part->start();
  }
  void finish() override {
    for (const auto& part : parts_) part->finish();
  }
  void progress() override {
    for (const auto& part : parts_) part->progress();
  }

 private:
  std::vector<std::unique_ptr<Protocol>> parts_;
};

// Returns the messages with only those sides for which `keep(rank)` is true; the order remains the same on all ranks.
template <class Keep>
Move part_of(const Move& whole, Keep&& keep) {
  Move part = whole;
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

bool anything_in(const Move& move) {
  return std::any_of(move.messages.begin(), move.messages.end(),
                     [](const Message& m) { return !m.send.empty() || !m.receive.empty(); });
}

bool on_any_rank(const Node& node, bool is_local) {
  int any = is_local;
  MPI_Allreduce(MPI_IN_PLACE, &any, 1, MPI_INT, MPI_MAX, node.comm);
  return any;
}

double cost_of(const ProtocolSpec& spec, const ExchangeContext& around, const Move& move) {
  const Node& node = around.node();
  double cost = 0;
  for (const auto& message : move.messages) {
    if (message.send.empty() || node.local_of[static_cast<std::size_t>(message.to)] < 0) continue;
    MessageShape shape;
    shape.bytes = static_cast<double>(bytes_of(message.send, move.fields));
    const auto& first = message.send.front().mine;
    const auto& array = move.fields.front().mine;
    auto run = static_cast<double>(array.cell_bytes) * static_cast<double>(first.extents()[2]);
    if (contiguous(message.send, move.fields)) run = shape.bytes;
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
  throw Error(Code::argument, "there is no protocol '" + name + "'; there are auto, " + names);
}

std::unique_ptr<Protocol> make_protocol(const ProtocolSpec& spec, ExchangeContext& around, Move move) {
  const Node& node = around.node();
  auto all = std::make_unique<CompositeProtocol>();
  if (auto own = part_of(move, [&](int rank) { return rank == node.rank; }); anything_in(own))
    all->add(std::make_unique<PeriodicSelfCopies>(std::move(own)));
  const auto on_node = [&](int rank) { return node.local_of[static_cast<std::size_t>(rank)] >= 0; };
  if (!spec.shared_only) {
    auto others = part_of(move, [&](int rank) { return rank != node.rank; });
    if (on_any_rank(node, anything_in(others))) all->add(spec.make(around, std::move(others)));
    return all;
  }
  auto near = part_of(move, [&](int rank) { return rank != node.rank && on_node(rank); });
  auto far = part_of(move, [&](int rank) { return !on_node(rank); });
  if (on_any_rank(node, anything_in(near))) all->add(spec.make(around, std::move(near)));
  if (on_any_rank(node, anything_in(far))) all->add(persistent_protocol.make(around, std::move(far)));
  return all;
}

const ProtocolSpec& cheapest(ExchangeContext& around, const Move& move) {
  const Node& node = around.node();
  const ProtocolSpec* best = &persistent_protocol;
  double best_cost = -1;
  const bool have_arrays =
      std::all_of(move.fields.begin(), move.fields.end(), [](const Cells& f) { return !f.of_local.empty(); });
  for (const auto* spec : all_protocols()) {
    if (!spec->cost_ns) continue;
    bool possible = have_arrays || !spec->needs_arrays;
    if (possible && spec->problem) possible = spec->problem(node).empty();
    double cost = possible ? cost_of(*spec, around, move) : 1e300;
    MPI_Allreduce(MPI_IN_PLACE, &cost, 1, MPI_DOUBLE, MPI_MAX, node.comm);
    if (cost < 1e300 && (best_cost < 0 || cost < best_cost)) {
      best = spec;
      best_cost = cost;
    }
  }
  return *best;
}

}  // namespace nearfield::halo

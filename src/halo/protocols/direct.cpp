// Each rank copies cells out of the arrays of its neighbours, which it has mapped: one copy, no system call. Also fills
// the ghost cells at a periodic edge inside a node for fields that are read in place.
#include "halo/protocol.hpp"

namespace nearfield::halo {
namespace {

class DirectProtocol final : public Protocol {
 public:
  DirectProtocol(ExchangeContext& context, ExchangePlan plan) : context_(context), plan_(std::move(plan)) {}

  void finish_exchange() override {
    for (const auto& message : plan_.messages)
      if (message.source >= 0) fetch_cells(message);
    if (!plan_.reads_in_place) context_.wait_until_cells_are_fetched(plan_);
  }

 private:
  void fetch_cells(const Message& message) {
    for (const auto& field : plan_.fields) {
      const Array& neighbor_array = field.array_by_local_rank[context_.node().local_rank_of(message.source)];
      for (const auto& strip : message.receive)
        field.local_array.copy_or_add(strip.local_box.lo, neighbor_array.at(strip.neighbor_box.lo), strip.extents(),
                                      plan_.should_add);
    }
  }

  ExchangeContext& context_;
  ExchangePlan plan_;
};

// Predicts two core-to-core latencies and one copy, plus the cost of short runs.
double cost_direct(const MessageShape& shape, const planning::Costs& costs) {
  return 2 * costs.flag_latency_ns() + shape.bytes * costs.copy_ns_per_byte +
         shape.bytes / shape.run_bytes * (shape.run_bytes < 64 ? 4.0 : 8.0);
}

}  // namespace

const ProtocolSpec direct_protocol{
    "direct", "one copy out of the neighbour's array", make_implementation<Protocol, DirectProtocol>, cost_direct, true,
    true};

}  // namespace nearfield::halo

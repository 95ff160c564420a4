// Each rank copies cells out of the arrays of its neighbours, which it has mapped: one copy, no system call. Also fills
// the ghost cells at a periodic edge inside a node for fields that are read in place.
#include "halo/protocol.hpp"

namespace nearfield::halo {
namespace {

class DirectProtocol final : public Protocol {
 public:
  DirectProtocol(ExchangeContext& around, ExchangePlan move) : around_(around), move_(std::move(move)) {}

  void finish_exchange() override {
    for (const auto& message : move_.messages)
      if (message.from >= 0) fetch_cells(message);
    if (!move_.in_place) around_.wait_for_readers(move_);
  }

 private:
  void fetch_cells(const Message& message) {
    for (const auto& field : move_.fields) {
      const Array& theirs = field.of_local[around_.node().local_index_of(message.from)];
      for (const auto& strip : message.receive)
        field.mine.copy_or_add(strip.mine.lo, theirs.at(strip.theirs.lo), strip.extents(), move_.add);
    }
  }

  ExchangeContext& around_;
  ExchangePlan move_;
};

// Predicts two core-to-core latencies and one copy, plus the cost of short runs.
double cost_direct(const MessageShape& shape, const planning::Costs& costs) {
  return 2 * costs.flag_ns() + shape.bytes * costs.copy_ns_per_byte +
         shape.bytes / shape.run_bytes * (shape.run_bytes < 64 ? 4.0 : 8.0);
}

}  // namespace

const ProtocolSpec direct_protocol{
    "direct", "one copy out of the neighbour's array", make_variant<Protocol, DirectProtocol>, cost_direct, true, true};

}  // namespace nearfield::halo

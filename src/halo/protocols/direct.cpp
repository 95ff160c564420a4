// Each rank copies its neighbours' cells from their arrays, which it has mapped: one copy, no system call. Also fills
// the ghost cells at the periodic edge of a node, for fields that are read in place.
#include "halo/protocol.hpp"

namespace nearfield::halo {
namespace {

class Direct final : public Protocol {
 public:
  Direct(ExchangeContext& around, Move move) : around_(around), move_(std::move(move)) {}

  void finish() override {
    for (const auto& message : move_.messages)
      if (message.from >= 0) fetch(message);
    if (!move_.in_place) around_.wait_for_readers(move_);
  }

 private:
  void fetch(const Message& message) {
    for (const auto& field : move_.fields) {
      const Array& theirs = field.of_local[around_.node().index_here(message.from)];
      for (const auto& strip : message.receive)
        field.mine.put(strip.mine.lo, theirs.at(strip.theirs.lo), strip.extents(), move_.add);
    }
  }

  ExchangeContext& around_;
  Move move_;
};

// Two core-to-core latencies and one copy. Short runs cost a line each.
double cost_direct(const MessageShape& shape, const planning::Costs& costs) {
  return 2 * costs.flag_ns() + shape.bytes * costs.copy_ns_per_byte +
         shape.bytes / shape.run_bytes * (shape.run_bytes < 64 ? 4.0 : 8.0);
}

}  // namespace

const ProtocolSpec direct_protocol{
    "direct", "one copy out of the neighbour's array", make_variant<Protocol, Direct>, cost_direct, true, true};

}  // namespace nearfield::halo

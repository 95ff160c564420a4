// Determines the protocol of each message size by its behaviour: whether MPI_Send waits for the receiver, and whether
// the kernel copies the payload. Its metrics are not times; each case is one observation of six messages.
#include "probe/protocol.hpp"

#include <algorithm>

#include "probe/scenarios/pair.hpp"
#include "scenario/size_ladder.hpp"

namespace nearfield::probe {
namespace {

class ProtocolScenario final : public PairScenario {
 public:
  explicit ProtocolScenario(Context& ctx) : PairScenario(ctx) {
    const auto largest = std::min<std::int64_t>(8 << 20, ctx.plan.llc_bytes());
    for (const auto size : dense_size_ladder(ctx.size_choice(), ctx.protocol_switch_sizes(), 1, largest))
      cases_.push_back({{"size_bytes", size}});
    allocate(max_message_bytes());
  }

  void select_case(std::size_t index) override { bytes_ = message_bytes_of(index); }

  void run_timed(std::span<double> values) override {
    const ProtocolBehavior behavior = observe_protocol(ctx_, send_.first(bytes_), receive_.first(bytes_));
    values[0] = behavior.waits_for_receive;
    values[1] = behavior.waits_for_progress;
    values[2] = behavior.single_copies_per_message;
  }

  std::string check_received_data(unsigned seed) override {
    return ctx_.is_sender() ? "" : PairScenario::check_received_data(seed);
  }
};

const ScenarioInfo protocol_info{
    "protocol",
    "Which protocol carries each message size, found by behaviour",
    Ranks::pair,
    {{"size_bytes", "message size"}},
    {{"waits_for_receive", "count", Combine::root, "1: Send returns only once the receive is posted (rendezvous)"},
     {"waits_for_progress", "count", Combine::root, "1: Send returns only once the receiver is inside MPI"},
     {"single_copies", "count", Combine::root, "kernel copies (cross-memory attach) a message"}},
};

}  // namespace

extern const Spec protocol_spec;
const Spec protocol_spec{protocol_info, 0.5, make_implementation<Scenario, ProtocolScenario>};

}  // namespace nearfield::probe

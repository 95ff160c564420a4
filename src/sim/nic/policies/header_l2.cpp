// Paper S4 (papers/S4/README.md), section 2, 'header' (hl2): events go to the L2 of the core that polls them, and to
// memory; payload goes to memory.
#include "sim/nic/policy.hpp"

namespace nearfield::sim {
namespace {

class HeaderL2 final : public Policy {
 public:
  InjectionTarget choose_target(const IncomingWrite& incoming, const CounterReader&) override {
    return incoming.kind == IncomingWrite::Kind::header ? target_in_level(1, incoming) : InjectionTarget{};
  }
};

}  // namespace

extern const PolicySpec header_l2_policy;
const PolicySpec header_l2_policy{
    "header-l2", "events into the L2 (S4: hl2)", {}, 2, make_implementation<Policy, HeaderL2>};

}  // namespace nearfield::sim

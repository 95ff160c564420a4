// Paper S4 (papers/S4/README.md), section 2, 'hl2p': events as with header-l2, payload as with payload-l3.
#include "sim/nic/policy.hpp"

namespace nearfield::sim {

extern const PolicySpec header_l2_policy, payload_l3_policy;

namespace {

class HeaderPayload final : public Policy {
 public:
  HeaderPayload(const Machine& machine, const PolicyValues&)
      : header_(header_l2_policy.make(machine, {})), payload_(payload_l3_policy.make(machine, {})) {}
  InjectionTarget choose_target(const IncomingWrite& incoming, const CounterReader& counters) override {
    return (incoming.kind == IncomingWrite::Kind::header ? header_ : payload_)->choose_target(incoming, counters);
  }

 private:
  std::unique_ptr<Policy> header_, payload_;
};

}  // namespace

extern const PolicySpec header_payload_policy;
const PolicySpec header_payload_policy{"header-payload",
                                       "events into the L2, payload up to half the L3 into the L3 (S4: hl2p)",
                                       {},
                                       3,
                                       make_implementation<Policy, HeaderPayload>};

}  // namespace nearfield::sim

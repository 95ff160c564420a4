// Paper S4 (papers/S4/README.md), section 2, 'payload': whole lines of the payload of messages of at most half the L3
// are written to memory and, as clean lines, to the L3. All other payload and events go to memory only.
#include "sim/nic/policy.hpp"

namespace nearfield::sim {
namespace {

class PayloadL3 final : public Policy {
 public:
  PayloadL3(const Machine& machine, const PolicyValues&) : max_bytes_(machine.caches[2].size_bytes / 2) {}
  InjectionTarget choose_target(const IncomingWrite& incoming, const CounterReader&) override {
    const bool inject = incoming.kind == IncomingWrite::Kind::payload && incoming.message_bytes <= max_bytes_;
    return inject ? target_in_level(2, incoming) : InjectionTarget{};
  }

 private:
  std::uint64_t max_bytes_;
};

}  // namespace

extern const PolicySpec payload_l3_policy;
const PolicySpec payload_l3_policy{
    "payload-l3", "payload up to half the L3 into the L3 (S4: payload)", {}, 3, make_implementation<Policy, PayloadL3>};

}  // namespace nearfield::sim

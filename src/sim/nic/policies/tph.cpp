// PCIe's TLP processing hints (TPH), as AMD's Smart Data Cache Injection (SDCI) and RDMA libraries use them: each
// buffer has a target. Payload for a steered buffer (Rank::steer) goes to the cache level to which the buffer is
// steered, all other payload to memory. The event queue is steered to the L2 unless the parameter `header` names
// another level.
#include <algorithm>

#include "sim/nic/policy.hpp"

namespace nearfield::sim {
namespace {

class TphPolicy final : public Policy {
 public:
  TphPolicy(const Machine& machine, const PolicyValues& values)
      : num_levels_(static_cast<int>(machine.caches.size())), header_level_(static_cast<int>(values[0])) {}
  InjectionTarget choose_target(const IncomingWrite& incoming, const CounterReader&) override {
    const int level =
        incoming.kind == IncomingWrite::Kind::header ? header_level_ - 1 : incoming.steered_level.value_or(-1);
    return level < 0 ? InjectionTarget{} : target_in_level(std::min(level, num_levels_ - 1), incoming);
  }

 private:
  int num_levels_, header_level_;
};

}  // namespace

extern const PolicySpec tph_policy;
const PolicySpec tph_policy{"tph",
                            "each buffer to where it was steered (PCIe TPH, AMD SDCI)",
                            {{"header", 2, 0, 8, "cache level of the event queue, 1: nearest; 0: memory"}},
                            1,
                            make_implementation<Policy, TphPolicy>};

}  // namespace nearfield::sim

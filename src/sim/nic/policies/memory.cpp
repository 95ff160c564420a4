// The baseline of paper S4 (papers/S4/README.md): incoming data is written to memory, and cached copies are
// invalidated.
#include "sim/nic/policy.hpp"

namespace nearfield::sim {
namespace {

class ToMemory final : public Policy {
 public:
  InjectionTarget choose_target(const IncomingWrite&, const CounterReader&) override { return {}; }
};

}  // namespace

extern const PolicySpec memory_policy;
const PolicySpec memory_policy{
    "memory", "to memory only (the papers' base)", {}, 0, make_implementation<Policy, ToMemory>};

}  // namespace nearfield::sim

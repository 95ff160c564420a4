// Intel's Data Direct I/O: all device writes, of any size, go to the LLC, but only into a few ways of a set (two by
// default; the IIO LLC WAYS register of a processor gives the number). Unlike real DDIO, a line that the LLC holds
// outside these ways is not updated in place, and memory is written at once, as with every policy, not on eviction.
#include <stdexcept>
#include <string>

#include "machine/machine.hpp"
#include "sim/nic/policy.hpp"

namespace nearfield::sim {
namespace {

class DdioPolicy final : public Policy {
 public:
  DdioPolicy(const Machine& machine, const PolicyValues& values)
      : level_(static_cast<int>(machine.caches.size()) - 1), ways_(static_cast<int>(values[0])) {
    const int llc_ways = machine.caches.back().ways;
    if (llc_ways > 0 && ways_ > llc_ways)
      throw std::invalid_argument("policy 'ddio': 'ways=" + std::to_string(ways_) +
                                  "': the last-level cache of machine '" + machine.name + "' has " +
                                  std::to_string(llc_ways));
  }
  InjectionTarget choose_target(const IncomingWrite& incoming, const CounterReader&) override {
    return target_in_level(level_, incoming, ways_);
  }

 private:
  int level_, ways_;
};

}  // namespace

extern const PolicySpec ddio_policy;
const PolicySpec ddio_policy{"ddio",
                             "everything into a few ways of the last-level cache (Intel DDIO)",
                             {{"ways", 2, 1, 1024, "ways of a set that it may take"}},
                             1,
                             make_implementation<Policy, DdioPolicy>,
                             true};

}  // namespace nearfield::sim

// Intel's Data Direct I/O: everything that a device writes goes to the last-level cache, of whatever size, but into a
// few ways only (the IIO LLC WAYS register of one's processor says which; two by default). Left out: lines that are in
// the cache outside these ways are updated where they are, and memory is written only when they leave the cache; here
// memory is written at once, as with every policy.
#include <stdexcept>
#include <string>

#include "machine/machine.hpp"
#include "sim/nic/policy.hpp"

namespace nearfield::sim {
namespace {

class Ddio final : public Policy {
 public:
  Ddio(const Machine& machine, const PolicyValues& values)
      : level_(static_cast<int>(machine.caches.size()) - 1), ways_(static_cast<int>(values[0])) {
    const int there = machine.caches.back().ways;
    if (there > 0 && ways_ > there)
      throw std::invalid_argument("policy 'ddio': 'ways=" + std::to_string(ways_) +
                                  "': the last-level cache of machine '" + machine.name + "' has " +
                                  std::to_string(there));
  }
  InjectionTarget place(const Incoming& incoming, const Evidence&) override {
    return into_level(level_, incoming, ways_);
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
                             made<Policy, Ddio>,
                             true};

}  // namespace nearfield::sim

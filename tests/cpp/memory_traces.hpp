// Random machines and random traces of accesses to their memory: any possible geometry, addresses reused often enough
// that all states occur. The same seed gives the same machine and trace on every host.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "machine/machine.hpp"
#include "sim/memory/memory.hpp"

namespace nearfield::sim {

struct Step {
  enum class What { access, sweep, replay, copy, dma_write, dma_read, invalidate_range, invalidate_all };
  What what = What::access;
  int core = 0;
  Access kind = Access::load;
  Address address = 0;
  std::uint64_t bytes = 0;  // of a sweep or replayed trace: of each access
  std::uint64_t count = 1;  // number of accesses
  std::int64_t stride_bytes = 0;
  Address from = 0;  // of a copy
  InjectionTarget target;
};

class Random {
 public:
  explicit Random(std::uint64_t seed) : bits_(seed) {}
  std::uint64_t below(std::uint64_t n) { return bits_() % n; }
  int between(int low, int high) { return low + static_cast<int>(below(static_cast<std::uint64_t>(high - low + 1))); }
  bool in(int hundred) { return between(1, 100) <= hundred; }

 private:
  std::mt19937_64 bits_;
};

Machine random_machine(Random& random);
// A machine on which all accesses are for src/sim/memory/fast_path.hpp, which is rare among the others.
Machine random_machine_with_victim_cache(Random& random);
// Cores have local memories, and hubs are linked, two per router.
Machine random_machine_with_hubs(Random& random);
std::vector<Step> random_trace(Random& random, const Machine& machine, std::size_t steps);

std::string describe(const Machine& machine);
std::string describe(const Step& step);

Address granule_bytes(const Machine& machine);

// The loads and stores of a core that make up a step, as access() takes them.
struct OneAccess {
  Access kind;
  Address address;
  unsigned bytes;
};
std::vector<OneAccess> accesses_of(const Step& step, const Machine& machine);

}  // namespace nearfield::sim

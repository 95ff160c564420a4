// The reference model under the name of the simulated memory, so that the comparison in test_memory_oracle.cpp can be
// tested without the latter: against a model with an injected bug (tests/injected_bugs/reference_memory.toml), which
// it must find.
#include "memory_traces.hpp"
#include "reference_memory.hpp"

namespace nearfield::sim {

struct Memory::Caches : ReferenceMemory {
  using ReferenceMemory::ReferenceMemory;
};
class Timing {
 public:
  TimeVector now;
  Machine machine;
};
class TimingEventBuffer {};
class Frames {};
class Translation {};
class StreamPrefetcher {};

struct Memory::CoreContext {};

Memory::Memory(const Machine& machine, const std::array<double, num_memory_speeds>&, int, bool)
    : caches_(std::make_unique<Caches>(machine)) {
  timings_.push_back(std::make_unique<Timing>(Timing{TimeVector(), machine}));
}
Memory::~Memory() = default;

void Memory::access(int core, Access kind, Address address, unsigned bytes) {
  caches_->access(core, kind, address, bytes);
}
void Memory::sweep(int core, Access kind, Address address, std::uint64_t count, std::int64_t stride_bytes,
                   unsigned bytes, Ps) {
  for (std::uint64_t i = 0; i < count; ++i, address += static_cast<Address>(stride_bytes))
    access(core, kind, address, bytes);
}
void Memory::copy(int core, Address to, Address from, std::uint64_t bytes) {
  Step step;
  step.what = Step::What::copy;
  step.address = to;
  step.from = from;
  step.bytes = bytes;
  for (const OneAccess& one : accesses_of(step, timings_[0]->machine)) access(core, one.kind, one.address, one.bytes);
}
void Memory::replay(int core, std::span<const Reference> trace) {
  for (const Reference& one : trace) access(core, one.kind, one.address, one.bytes);
}
ConfigClock Memory::dma_write(Address address, std::uint64_t bytes, std::span<const InjectionTarget> targets,
                              const ConfigClock& start) {
  caches_->dma_write(address, bytes, targets[0]);
  return start;
}
ConfigClock Memory::dma_read(Address address, std::uint64_t bytes, const ConfigClock& start) {
  caches_->dma_read(address, bytes);
  return start;
}
void Memory::invalidate_range(Address address, std::uint64_t bytes) { caches_->invalidate_range(address, bytes); }
void Memory::invalidate_all() { caches_->invalidate_all(); }
const TimeVector& Memory::now(int, int) const { return timings_[0]->now; }
ConfigClock Memory::clock(int) const { return ConfigClock(1); }
Counts Memory::counts(int) const { return caches_->counts(); }
Memory::Copy Memory::copy_in(int core, int level, Address address, int) const {
  return caches_->copy_in(core, level, address);
}

}  // namespace nearfield::sim

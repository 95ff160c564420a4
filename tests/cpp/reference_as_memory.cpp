// The reference model under the name of the simulated memory, so that the comparison in test_memory_oracle.cpp can be
// tried without the latter: against a model with a mistake in it (tests/injected_bugs/reference_memory.toml), which it
// must find.
#include "memory_traces.hpp"
#include "reference_memory.hpp"

namespace nearfield::sim {

struct Memory::Caches : ReferenceMemory {
  using ReferenceMemory::ReferenceMemory;
};
class Timing {
 public:
  Times now;
  Machine machine;
};
class Frames {};
class Translation {};
class StreamFollower {};

Memory::Memory(const Machine& machine, const std::array<double, speeds>&)
    : caches_(std::make_unique<Caches>(machine)), timing_(std::make_unique<Timing>(Timing{Times(), machine})) {}
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
  for (const OneAccess& one : accesses_of(step, timing_->machine)) access(core, one.kind, one.address, one.bytes);
}
void Memory::replay(int core, std::span<const Reference> trace) {
  for (const Reference& one : trace) access(core, one.kind, one.address, one.bytes);
}
Times Memory::dma_write(Address address, std::uint64_t bytes, const Placement& placement, const Times&) {
  caches_->dma_write(address, bytes, placement);
  return {};
}
Times Memory::dma_read(Address address, std::uint64_t bytes, const Times&) {
  caches_->dma_read(address, bytes);
  return {};
}
void Memory::forget(Address address, std::uint64_t bytes) { caches_->forget(address, bytes); }
void Memory::forget_everything() { caches_->forget_everything(); }
const Times& Memory::now(int) const { return timing_->now; }
Counts Memory::counts() const { return caches_->counts(); }
Memory::Copy Memory::copy_in(int core, int level, Address address) const {
  return caches_->copy_in(core, level, address);
}

}  // namespace nearfield::sim

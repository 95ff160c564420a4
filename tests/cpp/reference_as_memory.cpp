// The reference model under the name of the simulated memory, so that the comparison in test_memory_oracle.cpp can be
// tested without the latter: against a model with an injected bug (tests/injected_bugs/reference_memory.toml), which
// it must find.
#include "memory_traces.hpp"
#include "reference_memory.hpp"

namespace nearfield::sim {

class MemoryModel : public ReferenceMemory {
 public:
  using ReferenceMemory::ReferenceMemory;
};

NodeMemory::NodeMemory(const Machine& machine, const std::array<double, num_memory_speeds>&, int, bool)
    : machine_(std::make_unique<const Machine>(machine)) {
  models_.push_back(std::make_unique<MemoryModel>(machine));
}
NodeMemory::~NodeMemory() = default;

void NodeMemory::access(int core, Access kind, Address address, unsigned bytes) {
  models_[0]->access(core, kind, address, bytes);
}
void NodeMemory::sweep(int core, Access kind, Address address, std::uint64_t count, std::int64_t stride_bytes,
                       unsigned bytes, Ps) {
  for (std::uint64_t i = 0; i < count; ++i, address += static_cast<Address>(stride_bytes))
    access(core, kind, address, bytes);
}
void NodeMemory::copy(int core, Address to, Address from, std::uint64_t bytes) {
  Step step;
  step.what = Step::What::copy;
  step.address = to;
  step.from = from;
  step.bytes = bytes;
  for (const OneAccess& one : accesses_of(step, *machine_)) access(core, one.kind, one.address, one.bytes);
}
void NodeMemory::replay(int core, std::span<const Reference> trace) {
  for (const Reference& one : trace) access(core, one.kind, one.address, one.bytes);
}
ConfigClock NodeMemory::dma_write(Address address, std::uint64_t bytes, std::span<const InjectionTarget> targets,
                                  const ConfigClock& start) {
  models_[0]->dma_write(address, bytes, targets[0]);
  return start;
}
ConfigClock NodeMemory::dma_read(Address address, std::uint64_t bytes, const ConfigClock& start) {
  models_[0]->dma_read(address, bytes);
  return start;
}
void NodeMemory::invalidate_range(Address address, std::uint64_t bytes) {
  models_[0]->invalidate_range(address, bytes);
}
void NodeMemory::invalidate_all() { models_[0]->invalidate_all(); }
const TimeVector& NodeMemory::now(int, int) const {
  static const TimeVector zero;
  return zero;
}
ConfigClock NodeMemory::clock(int) const { return ConfigClock(1); }
Counts NodeMemory::counts(int) const { return models_[0]->counts(); }
CopyState NodeMemory::cached_copy_state(int core, int level, Address address, int) const {
  return models_[0]->cached_copy_state(core, level, address);
}

}  // namespace nearfield::sim

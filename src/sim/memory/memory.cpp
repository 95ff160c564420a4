#include "sim/memory/memory.hpp"

#include <algorithm>
#include <stdexcept>

#include "sim/memory/core_context.hpp"

namespace nearfield::sim {
namespace {

constexpr Count split_check_period = 1 << 14;  // diverging accesses between two decisions on a split
// Separate models are faster if more than one in this number of accesses has different outcomes under different
// variants.
constexpr Count accesses_per_divergence = 4;

// Development builds also simulate each access in a model without the fast path, whose results must be the same.
#ifdef NEARFIELD_CHECK_FAST_PATH
constexpr bool checks_fast_path = true;
#else
constexpr bool checks_fast_path = false;
#endif

}  // namespace

NodeMemory::NodeMemory(const Machine& machine, const std::array<double, num_memory_speeds>& memory_slowdown,
                       int variants, bool limits_ways)
    : num_cores_(machine.cores), num_variants_(variants), next_split_check_(split_check_period) {
  models_.push_back(std::make_unique<MemoryModel>(machine, memory_slowdown, variants, limits_ways));
  if (variants > 1) machine_ = std::make_unique<const Machine>(machine);
  if constexpr (checks_fast_path) {
    slow_model_ = std::make_unique<MemoryModel>(machine, memory_slowdown, variants, limits_ways);
    slow_model_->disable_fast_path();
  }
}

NodeMemory::~NodeMemory() = default;

void NodeMemory::split_if_faster() {
  const auto& group = *models_.front();
  if (group.num_diverging_accesses() < next_split_check_) [[likely]]
    return;
  next_split_check_ = group.num_diverging_accesses() + split_check_period;
  const auto l1 = group.counts(0).levels.front();
  const Count accesses = l1.hits + l1.misses, recent_accesses = accesses - std::min(accesses, accesses_at_last_check_);
  accesses_at_last_check_ = accesses;
  if (recent_accesses <= accesses_per_divergence * split_check_period) split_into_models();
}

void NodeMemory::split_into_models() {
  const int variants = models_.front()->num_separable_variants();
  if (variants == 1) return;
  const auto group = std::move(models_.front());
  models_.clear();
  for (int v = 0; v < variants; ++v) models_.push_back(std::make_unique<MemoryModel>(*machine_, *group, v));
}

std::pair<MemoryModel&, int> NodeMemory::model_of_variant(int variant) const {
  return is_split() ? std::pair<MemoryModel&, int>{*models_[static_cast<std::size_t>(variant)], 0}
                    : std::pair<MemoryModel&, int>{*models_.front(), variant};
}

// Calls `function` with each model. Splits the variants into separate models first, if that is due.
template <class Function>
NEARFIELD_ALWAYS_INLINE void NodeMemory::simulate(Function&& function) {
  split_if_faster();
  if (!is_split()) [[likely]]
    function(*models_.front());
  else
    for (auto& model : models_) function(*model);
  if constexpr (checks_fast_path) {
    function(*slow_model_);
    check_fast_path();
  }
}

void NodeMemory::check_fast_path() const {
  for (int v = 0; v < num_variants_; ++v) {
    const auto [model, number] = model_of_variant(v);
    bool is_same = model.counts(number) == slow_model_->counts(v);
    for (int core = 0; core < num_cores_; ++core) is_same &= model.now(core, number) == slow_model_->now(core, v);
    if (!is_same) throw std::logic_error("an access has another result on the fast path than on the slow path");
  }
}

// ---- accesses of cores

void NodeMemory::access(int core, Access kind, Address address, unsigned bytes) {
  simulate([&](MemoryModel& model) { model.access(core, kind, address, bytes); });
}

void NodeMemory::sweep(int core, Access kind, Address address, std::uint64_t count, std::int64_t stride_bytes,
                       unsigned bytes, Ps compute_time) {
  simulate([&](MemoryModel& model) { model.sweep(core, kind, address, count, stride_bytes, bytes, compute_time); });
}

void NodeMemory::copy(int core, Address to, Address from, std::uint64_t bytes) {
  simulate([&](MemoryModel& model) { model.copy(core, to, from, bytes); });
}

void NodeMemory::replay(int core, std::span<const Reference> trace) {
  simulate([&](MemoryModel& model) { model.replay(core, trace); });
}

void NodeMemory::replay(int core, std::span<const Address> addresses, Access kind, unsigned bytes) {
  simulate([&](MemoryModel& model) { model.replay(core, addresses, kind, bytes); });
}

// ---- accesses of devices

// Calls `function` with each model, the number of the model's first variant, and the start time of the transfer under
// the model's variants. Returns the completion time under all variants.
template <class Function>
ConfigClock NodeMemory::transfer(const ConfigClock& start, Function&& function) {
  if constexpr (checks_fast_path) function(*slow_model_, 0, start);
  if (!is_split()) return function(*models_.front(), 0, start);
  ConfigClock completion(start.num_variants());
  for (int v = 0; v < start.num_variants(); ++v)
    completion[v] =
        function(*models_[static_cast<std::size_t>(v)], static_cast<std::size_t>(v), start.of_variant(v))[0];
  return completion;
}

ConfigClock NodeMemory::dma_write(Address address, std::uint64_t bytes, std::span<const InjectionTarget> targets,
                                  const ConfigClock& start) {
  return transfer(start, [&](MemoryModel& model, std::size_t first, const ConfigClock& model_start) {
    return model.dma_write(address, bytes, targets.subspan(first), model_start);
  });
}

ConfigClock NodeMemory::dma_read(Address address, std::uint64_t bytes, const ConfigClock& start) {
  return transfer(start, [&](MemoryModel& model, std::size_t, const ConfigClock& model_start) {
    return model.dma_read(address, bytes, model_start);
  });
}

// ---- set-up of scenarios

void NodeMemory::invalidate_range(Address address, std::uint64_t bytes) {
  simulate([&](MemoryModel& model) { model.invalidate_range(address, bytes); });
}

void NodeMemory::invalidate_all() {
  simulate([&](MemoryModel& model) { model.invalidate_all(); });
}

// ---- clocks and counts

const TimeVector& NodeMemory::now(int core, int variant) const {
  const auto [model, number] = model_of_variant(variant);
  return model.now(core, number);
}

ConfigClock NodeMemory::clock(int core) const {
  ConfigClock all(num_variants_);
  for (int v = 0; v < num_variants_; ++v) all[v] = now(core, v);
  return all;
}

void NodeMemory::advance(int core, Ps duration) {
  simulate([&](MemoryModel& model) { model.advance(core, duration); });
}

void NodeMemory::wait_until(int core, const ConfigClock& instant) {
  if constexpr (checks_fast_path) slow_model_->wait_until(core, instant);
  if (!is_split()) return models_.front()->wait_until(core, instant);
  for (std::size_t v = 0; v < models_.size(); ++v)
    models_[v]->wait_until(core, instant.of_variant(static_cast<int>(v)));
}

void NodeMemory::drain(int core) {
  simulate([&](MemoryModel& model) { model.drain(core); });
}

Counts NodeMemory::counts(int variant) const {
  const auto [model, number] = model_of_variant(variant);
  return model.counts(number);
}

void NodeMemory::reset_counts() {
  simulate([&](MemoryModel& model) { model.reset_counts(); });
}

CopyState NodeMemory::cached_copy_state(int core, int level, Address address, int variant) const {
  const auto [model, number] = model_of_variant(variant);
  return model.cached_copy_state(core, level, address, number);
}

}  // namespace nearfield::sim

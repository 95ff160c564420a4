#include "sim/memory/memory.hpp"

#include <algorithm>

#include "sim/memory/core_context.hpp"

namespace nearfield::sim {
namespace {

constexpr Count split_check_period = 1 << 14;  // differing accesses between two decisions whether to split
constexpr Count one_in = 4;                    // if one access in four differs, separate models are faster

}  // namespace

NodeMemory::NodeMemory(const Machine& machine, const std::array<double, num_memory_speeds>& memory_slowdown,
                       int variants, bool limits_ways)
    : variants_(variants), next_check_(split_check_period) {
  models_.push_back(std::make_unique<MemoryModel>(machine, memory_slowdown, variants, limits_ways));
  if (variants > 1) machine_ = std::make_unique<const Machine>(machine);
}

NodeMemory::~NodeMemory() = default;

void NodeMemory::split_if_faster() {
  const auto& group = *models_.front();
  if (group.diverging_accesses() < next_check_) [[likely]]
    return;
  next_check_ = group.diverging_accesses() + split_check_period;
  const auto l1 = group.counts(0).levels.front();
  const Count accesses = l1.hits + l1.misses, recent_accesses = accesses - std::min(accesses, accesses_at_last_check_);
  accesses_at_last_check_ = accesses;
  if (recent_accesses <= one_in * split_check_period) split_variants();
}

void NodeMemory::split_variants() {
  const int variants = models_.front()->separable_variants();
  if (variants == 1) return;
  const auto group = std::move(models_.front());
  models_.clear();
  for (int v = 0; v < variants; ++v) models_.push_back(std::make_unique<MemoryModel>(*machine_, *group, v));
}

std::pair<MemoryModel&, int> NodeMemory::find_model(int variant) const {
  return is_split() ? std::pair<MemoryModel&, int>{*models_[static_cast<std::size_t>(variant)], 0}
                    : std::pair<MemoryModel&, int>{*models_.front(), variant};
}

// ---- accesses of cores

// Calls `function` with each model, after a split if that is due.
template <class Function>
NEARFIELD_ALWAYS_INLINE void NodeMemory::simulate(Function&& function) {
  split_if_faster();
  if (!is_split()) [[likely]]
    return function(*models_.front());
  for (auto& model : models_) function(*model);
}

void NodeMemory::access(int core, Access kind, Address address, unsigned bytes) {
  simulate([&](MemoryModel& model) { model.access(core, kind, address, bytes); });
}

void NodeMemory::sweep(int core, Access kind, Address address, std::uint64_t count, std::int64_t stride_bytes,
                       unsigned bytes, Ps work) {
  simulate([&](MemoryModel& model) { model.sweep(core, kind, address, count, stride_bytes, bytes, work); });
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

// Calls `function` with each model, its first variant, and its part of the instant at which a transfer starts. Returns
// when the transfer is complete.
template <class Function>
ConfigClock NodeMemory::transfer(const ConfigClock& start, Function&& function) {
  if (!is_split()) return function(*models_.front(), 0, start);
  ConfigClock done(start.variants());
  for (int v = 0; v < start.variants(); ++v)
    done[v] = function(*models_[static_cast<std::size_t>(v)], static_cast<std::size_t>(v), start.of(v))[0];
  return done;
}

ConfigClock NodeMemory::dma_write(Address address, std::uint64_t bytes, std::span<const InjectionTarget> targets,
                                  const ConfigClock& start) {
  return transfer(start, [&](MemoryModel& model, std::size_t first, const ConfigClock& part) {
    return model.dma_write(address, bytes, targets.subspan(first), part);
  });
}

ConfigClock NodeMemory::dma_read(Address address, std::uint64_t bytes, const ConfigClock& start) {
  return transfer(start, [&](MemoryModel& model, std::size_t, const ConfigClock& part) {
    return model.dma_read(address, bytes, part);
  });
}

// ---- scenarios

void NodeMemory::invalidate_range(Address address, std::uint64_t bytes) {
  for (auto& model : models_) model->invalidate_range(address, bytes);
}

void NodeMemory::invalidate_all() {
  for (auto& model : models_) model->invalidate_all();
}

// ---- clocks and counts

const TimeVector& NodeMemory::now(int core, int variant) const {
  const auto [model, number] = find_model(variant);
  return model.now(core, number);
}

ConfigClock NodeMemory::clock(int core) const {
  ConfigClock all(variants_);
  for (int v = 0; v < variants_; ++v) all[v] = now(core, v);
  return all;
}

void NodeMemory::advance(int core, Ps duration) {
  for (auto& model : models_) model->advance(core, duration);
}

void NodeMemory::wait_until(int core, const ConfigClock& instant) {
  if (!is_split()) return models_.front()->wait_until(core, instant);
  for (std::size_t v = 0; v < models_.size(); ++v) models_[v]->wait_until(core, instant.of(static_cast<int>(v)));
}

void NodeMemory::drain(int core) {
  for (auto& model : models_) model->drain(core);
}

Counts NodeMemory::counts(int variant) const {
  const auto [model, number] = find_model(variant);
  return model.counts(number);
}

void NodeMemory::reset_counts() {
  for (auto& model : models_) model->reset_counts();
}

CopyState NodeMemory::copy_in(int core, int level, Address address, int variant) const {
  const auto [model, number] = find_model(variant);
  return model.copy_in(core, level, address, number);
}

}  // namespace nearfield::sim

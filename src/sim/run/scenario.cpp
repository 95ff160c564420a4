#include "sim/run/scenario.hpp"

#include <algorithm>
#include <stdexcept>

#include "base/registry.hpp"
#include "machine/machine.hpp"

namespace nearfield::sim {

const ScenarioSpec& find_scenario(const std::string& name) {
  return find_named(all_scenarios(), name, "simulated scenario", [](const auto& spec) { return spec.info.name; });
}

ClusterOptions SimulationJob::options() const {
  const auto& slowdowns = settings.memory_slowdown;
  if (slowdowns.empty() || slowdowns.size() > num_memory_speeds)
    throw std::invalid_argument("memory_slowdown: from 1 to " + std::to_string(num_memory_speeds) + " of them");
  ClusterOptions options;
  if (machine.nic) options.placement_policy_names = {machine.nic->policy};
  if (!settings.policies.empty()) options.placement_policy_names = settings.policies;
  for (std::size_t speed = 0; speed < num_memory_speeds; ++speed)
    options.memory_slowdown[speed] = slowdowns[std::min(speed, slowdowns.size() - 1)];
  options.has_memory_effects = settings.has_memory_effects;
  options.progress_callback = progress_callback;
  return options;
}

std::int64_t llc_bytes(const Machine& machine) {
  return machine.caches.empty() ? 0 : static_cast<std::int64_t>(machine.caches.back().size_bytes);
}

SizeChoice limit_pair_sizes(const SizeChoice& choice) {
  SizeChoice limited = choice;
  if (choice.tier == "quick") limited.max_message_bytes = 16 << 20;
  return limited;
}

bool is_too_large_for_quick(const SizeChoice& choice, std::int64_t ranks, std::int64_t bytes) {
  constexpr std::int64_t max_bytes = 48 << 20;
  return choice.tier == "quick" && choice.sizes.empty() && ranks * bytes > max_bytes;
}

}  // namespace nearfield::sim

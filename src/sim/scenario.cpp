#include "sim/scenario.hpp"

#include <algorithm>
#include <stdexcept>

#include "base/text.hpp"

namespace nearfield::sim {
namespace {

template <class T>
T parameter(const Parameters& parameters, const std::string& name) {
  for (const auto& [its_name, value] : parameters)
    if (const T* found = its_name == name ? std::get_if<T>(&value) : nullptr) return *found;
  throw std::invalid_argument("the parameter '" + name + "' is missing, or of another kind");
}

}  // namespace

const std::vector<const ScenarioSpec*>& all_scenarios() {
  static const std::vector<const ScenarioSpec*> all{&pingpong_scenario, &pollution_scenario,    &stride_scenario,
                                                    &pages_scenario,    &collective_scenario,   &load_scenario,
                                                    &stencil_scenario,  &decomposition_scenario};
  return all;
}

const ScenarioSpec& find_scenario(const std::string& name) {
  std::vector<std::string> names;
  for (const auto* spec : all_scenarios()) {
    if (spec->name == name) return *spec;
    names.push_back(spec->name);
  }
  throw std::invalid_argument("there is no simulated scenario '" + name + "'; the nearest is '" +
                              nearest_name(name, names) + "'");
}

std::int64_t llc_bytes(const Machine& machine) {
  return machine.caches.empty() ? 0 : static_cast<std::int64_t>(machine.caches.back().size_bytes);
}

std::int64_t largest_message(const Machine& machine, const SizeChoice& choice) {
  constexpr std::int64_t quick = 16 << 20;
  const std::int64_t beyond_caches = 4 * llc_bytes(machine);
  return choice.tier == "quick" ? std::min(beyond_caches, quick) : beyond_caches;
}

bool too_much(const SizeChoice& choice, std::int64_t ranks, std::int64_t bytes) {
  constexpr std::int64_t most = 48 << 20;
  return choice.tier == "quick" && choice.sizes.empty() && ranks * bytes > most;
}

std::int64_t number(const Parameters& parameters, const std::string& name) {
  return parameter<std::int64_t>(parameters, name);
}

std::string word(const Parameters& parameters, const std::string& name) {
  return parameter<std::string>(parameters, name);
}

}  // namespace nearfield::sim

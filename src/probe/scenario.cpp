#include "probe/scenario.hpp"

#include "base/registry.hpp"
#include "probe/failure.hpp"

namespace nearfield::probe {

const Spec& find_scenario(const std::string& name) {
  try {
    return find_named(all_scenarios(), name, "scenario", [](const Spec& spec) { return spec.info.name; });
  } catch (const std::invalid_argument& error) {
    throw Failure("plan", error.what());
  }
}

}  // namespace nearfield::probe

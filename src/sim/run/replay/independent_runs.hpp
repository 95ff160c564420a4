// Simulates a program independently for each policy and memory speed, so that each configuration has its own order of
// events.
#pragma once

#include <functional>

#include "sim/run/replay/run.hpp"

namespace nearfield::sim::replay {

// Simulates the program with one policy at one memory speed.
using RunConfiguration = std::function<ReplayResult(const std::string& policy, double memory_slowdown)>;

// Returns the merged result, in the form of the result of one run of all configurations. Timelines, messages and
// results that do not depend on time are those of the first run. The results of the last speed are repeated for unused
// speeds.
ReplayResult run_independently(const std::vector<std::string>& policies, const std::vector<double>& memory_slowdown,
                               const RunConfiguration& run_configuration);

}  // namespace nearfield::sim::replay

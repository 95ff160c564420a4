// Runs of one program that were simulated apart, one for each policy and memory speed, so that each has an order of events
// of its own.
#pragma once

#include <functional>

#include "sim/replay/run.hpp"

namespace nearfield::sim::replay {

// Simulates with one policy at one memory speed.
using Once = std::function<Replayed(const std::string& policy, double memory_slowdown)>;

// Returns what a run of all would. Timelines, messages and what does not depend on time are those of the first. The last
// speed is also that of the clocks beyond it.
Replayed run_apart(const std::vector<std::string>& policies, const std::vector<double>& memory_slowdown,
                   const Once& once);

}  // namespace nearfield::sim::replay

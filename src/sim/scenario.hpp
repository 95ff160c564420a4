// What a scenario is on a simulated machine: the one of src/probe/scenarios/ of the same name, as a program over
// Cluster and Rank. One file in scenarios/ each, exporting one ScenarioSpec; parameters and metrics have the names of
// the measured one. Every case runs on a machine of its own that nobody has used before, so cases may run in any order
// and at the same time, and each gives the same numbers every time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/size_ladder.hpp"
#include "machine/machine.hpp"

namespace nearfield::sim {

using Value = std::variant<std::int64_t, std::string>;
using Parameters = std::vector<std::pair<std::string, Value>>;

// Where the two ranks of a pair run. Between nodes: on core 0 of node 0 and of node `peer`; else on cores of one node.
struct Place {
  bool between_nodes = false;
  int own = 0;  // core of the sender, inside a node
  int peer = 1;
};

// One number. `side`: sender, receiver, or empty for the operation as a whole.
struct Result {
  std::string metric;
  std::string unit;
  std::string side;
  std::optional<double> value;
  std::string reason;  // why there is no value
};

struct Described {
  std::string name;
  std::string summary;
};

struct DescribedMetric {
  std::string name;
  std::string unit;
  std::string summary;
};

struct ScenarioSpec {
  std::string name;
  std::string summary;
  bool of_pair;  // two ranks at a place; otherwise all cores of one node
  std::vector<Described> parameters;
  std::vector<DescribedMetric> metrics;  // others of its results are counts beside them
  // Why this machine cannot do it at the place; empty if it can.
  std::string (*unable)(const Machine& machine, const Place& place);
  std::vector<Parameters> (*cases)(const Machine& machine, const Place& place, const SizeChoice& choice);
  std::vector<Result> (*run)(const Machine& machine, const Place& place, const Parameters& parameters);
};

extern const ScenarioSpec collective_scenario, decomposition_scenario, load_scenario, pages_scenario, pingpong_scenario,
    pollution_scenario, stencil_scenario, stride_scenario;

const std::vector<const ScenarioSpec*>& all_scenarios();
// std::invalid_argument naming the nearest one.
const ScenarioSpec& find_scenario(const std::string& name);

// The machine's last cache, in bytes.
std::int64_t llc_bytes(const Machine& machine);
// Returns a size for a pair that is larger than all caches. For `quick` it is no larger than a host can simulate in
// some seconds.
std::int64_t largest_message(const Machine& machine, const SizeChoice& choice);
// Returns whether `quick` leaves a case out in which this many ranks move this many bytes each, unless the user asked
// for the size. On a machine with many cores, such a case takes a host minutes.
bool too_much(const SizeChoice& choice, std::int64_t ranks, std::int64_t bytes);
// The parameter of that name; std::invalid_argument if it is missing, or of another kind.
std::int64_t number(const Parameters& parameters, const std::string& name);
std::string word(const Parameters& parameters, const std::string& name);

}  // namespace nearfield::sim

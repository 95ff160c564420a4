// nearfield._native.simulated: the scenarios of the simulated machine; what python/nearfield/probe/simulated.py runs.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include "sim/network/topology.hpp"
#include "sim/scenario.hpp"

namespace nb = nanobind;
using namespace nearfield;

namespace {

void bind_specs(nb::module_& module) {
  nb::class_<sim::Described>(module, "Parameter")
      .def_ro("name", &sim::Described::name)
      .def_ro("summary", &sim::Described::summary);
  nb::class_<sim::DescribedMetric>(module, "Metric")
      .def_ro("name", &sim::DescribedMetric::name)
      .def_ro("unit", &sim::DescribedMetric::unit)
      .def_ro("summary", &sim::DescribedMetric::summary);
  nb::class_<sim::ScenarioSpec>(module, "Scenario")
      .def_ro("name", &sim::ScenarioSpec::name)
      .def_ro("summary", &sim::ScenarioSpec::summary)
      .def_ro("of_pair", &sim::ScenarioSpec::of_pair)
      .def_ro("parameters", &sim::ScenarioSpec::parameters)
      .def_ro("metrics", &sim::ScenarioSpec::metrics);
  nb::class_<sim::Result>(module, "Result")
      .def_ro("metric", &sim::Result::metric)
      .def_ro("unit", &sim::Result::unit)
      .def_ro("side", &sim::Result::side)
      .def_ro("value", &sim::Result::value)
      .def_ro("reason", &sim::Result::reason);
  nb::class_<sim::Place>(module, "Place")
      .def(
          "__init__",
          [](sim::Place* place, bool between_nodes, int own, int peer) {
            new (place) sim::Place{between_nodes, own, peer};
          },
          nb::arg("between_nodes"), nb::arg("own"), nb::arg("peer"));
}

// Of the nodes 0 to `nodes` - 1, how many links lie between them and node 0.
std::vector<int> hops(const Machine& machine, int nodes) {
  const auto topology = sim::make_topology(machine.network.value(), nodes);
  std::vector<int> all;
  for (int node = 0; node < nodes; ++node) all.push_back(topology->hops(0, node));
  return all;
}

std::vector<sim::Result> run(const std::string& scenario, const Machine& machine, const sim::Place& place,
                             const sim::Parameters& parameters) {
  const nb::gil_scoped_release others_may_go_on;
  return sim::find_scenario(scenario).run(machine, place, parameters);
}

}  // namespace

void bind_simulated_scenarios(nb::module_& parent) {
  nb::module_ module = parent.def_submodule("simulated", "Scenarios of the simulated machine.");
  bind_specs(module);
  module.def(
      "scenarios",
      [] {
        std::vector<sim::ScenarioSpec> all;
        for (const auto* spec : sim::all_scenarios()) all.push_back(*spec);
        return all;
      },
      "In the order in which they run.");
  module.def("hops", &hops, nb::arg("machine"), nb::arg("nodes"), "Links from node 0 to each of the nodes.");
  module.def(
      "unable",
      [](const std::string& scenario, const Machine& machine, const sim::Place& place) {
        return sim::find_scenario(scenario).unable(machine, place);
      },
      nb::arg("scenario"), nb::arg("machine"), nb::arg("place"), "Why not, or ''.");
  module.def(
      "cases",
      [](const std::string& scenario, const Machine& machine, const sim::Place& place, const std::string& tier,
         const std::vector<std::int64_t>& sizes) {
        return sim::find_scenario(scenario).cases(machine, place, {tier, sizes, sim::llc_bytes(machine)});
      },
      nb::arg("scenario"), nb::arg("machine"), nb::arg("place"), nb::arg("tier"), nb::arg("sizes"));
  module.def("run", &run, nb::arg("scenario"), nb::arg("machine"), nb::arg("place"), nb::arg("parameters"),
             "One case. ValueError for parameters that cannot be.");
}

// Binds nearfield._native.simulation: scenarios on simulated machines, and the names of the protocols, policies,
// topologies ... from which machine files and users can choose.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include "machine/machine.hpp"
#include "python/members.hpp"
#include "python/text.hpp"
#include "scenario/stencil.hpp"
#include "sim/memory/replacement.hpp"
#include "sim/mpi/collective.hpp"
#include "sim/mpi/protocol.hpp"
#include "sim/network/topology.hpp"
#include "sim/nic/policy.hpp"
#include "sim/run/app/application.hpp"
#include "sim/run/scenario.hpp"

namespace nb = nanobind;
using namespace nearfield;

namespace {

template <class Spec>
nb::class_<Spec> bind_spec(nb::module_& module, const char* name, const char* documentation) {
  return nb::class_<Spec>(module, name, documentation)
      .def_prop_ro("name", [](const Spec& spec) { return std::string(spec.name); })
      .def_prop_ro("summary", [](const Spec& spec) { return std::string(spec.summary); });
}

void bind_variants(nb::module_& module) {
  bind_spec<sim::CollectiveSpec>(module, "Collective", "A collective operation, and the meaning of its size.")
      .def_prop_ro("bytes_are", [](const sim::CollectiveSpec& spec) { return std::string(spec.bytes_meaning); })
      .def(
          "whole_bytes",
          [](const sim::CollectiveSpec& spec, std::uint64_t bytes, int ranks) {
            const auto sizes = spec.buffer_sizes(0, ranks, {0, 0, bytes, 0});
            return std::max(sizes.input_bytes, sizes.output_bytes);
          },
          nb::arg("bytes"), nb::arg("ranks"), "Returns the bytes of the root's longer buffer if the size is `bytes`.");
  bind_spec<sim::ApplicationSpec>(module, "Application", "An application, and the meaning of its size.")
      .def_prop_ro("bytes_are", [](const sim::ApplicationSpec& spec) { return std::string(spec.bytes_meaning); })
      .def_ro("usual_bytes", &sim::ApplicationSpec::default_bytes);
  bind_spec<sim::PolicySpec>(module, "Policy", "A placement policy: where a NIC writes received payload.")
      .def_ro("levels", &sim::PolicySpec::min_cache_levels)
      .def_prop_ro("parameters", [](const sim::PolicySpec& spec) {
        std::vector<std::string> names;
        for (const auto& parameter : spec.parameters) names.emplace_back(parameter.name);
        return names;
      });
  module.def("collectives", &sim::all_collectives, nb::rv_policy::reference);
  module.def("applications", &sim::all_applications, nb::rv_policy::reference);
  module.def("policies", &sim::all_policies, nb::rv_policy::reference);
  module.def(
      "check_policy",
      [](const std::string& text, const Machine& machine) { sim::PolicyChoice(text, machine).make_policy(machine); },
      nb::arg("text"), nb::arg("machine"),
      "Raises ValueError if there is no such policy, or if this machine does not support it.");
}

using Rows = std::vector<std::pair<std::size_t, bool>>;

// Returns the rows that an iteration of the stencil of paper S0 updates before the exchange, and those after it, in
// order. Each row is a pair (index, whether its columns are updated in descending order).
std::pair<Rows, Rows> stencil_rows(const std::string& variant, std::size_t rows) {
  const auto to_rows = [](const StencilRows& row_sequence) {
    Rows list;
    for (std::size_t i = 0; i < row_sequence.num_rows; ++i)
      list.emplace_back(row_sequence.row_at(i), row_sequence.is_backward);
    return list;
  };
  const StencilOrder order = stencil_order(variant, rows);
  return {to_rows(order.rows_before_exchange), to_rows(order.rows_after_exchange)};
}

// Returns the valid values of a key of machine files: the names of the simulator's implementations.
std::vector<std::string> variant_names(const std::string& key) {
  std::vector<std::string> names;
  if (key == "policy") {
    for (const auto* spec : sim::all_policies()) names.emplace_back(spec->name);
  } else if (key == "topology") {
    for (const auto* spec : sim::all_topologies()) names.emplace_back(spec->name);
  } else if (key == "replacement") {
    for (const auto* spec : sim::all_replacements()) names.push_back(spec->name);
  } else if (key == "network" || key == "node") {
    for (const auto& pair : sim::all_protocol_pairs(key == "node")) names.push_back(pair.name);
  } else {
    throw std::invalid_argument("no variants are called '" + key + "'");
  }
  return names;
}

void bind_scenarios(nb::module_& module) {
  bind_readable(nb::class_<ParameterInfo>(module, "Parameter"), field("name", &ParameterInfo::name),
                field("summary", &ParameterInfo::summary));
  bind_readable(nb::class_<MetricInfo>(module, "Metric"), field("name", &MetricInfo::name),
                field("unit", &MetricInfo::unit), field("summary", &MetricInfo::summary));
  nb::class_<sim::ScenarioSpec>(module, "Scenario", "A scenario that can be simulated; src/scenario/ declares it.")
      .def_prop_ro("name", [](const sim::ScenarioSpec& spec) { return spec.info.name; })
      .def_prop_ro("summary", [](const sim::ScenarioSpec& spec) { return spec.info.summary; })
      .def_prop_ro("of_pair", [](const sim::ScenarioSpec& spec) { return spec.info.ranks != Ranks::all; })
      .def_prop_ro("parameters", [](const sim::ScenarioSpec& spec) { return spec.info.parameters; })
      .def_prop_ro("metrics", [](const sim::ScenarioSpec& spec) { return spec.info.metrics; })
      .def_ro("more_metrics", &sim::ScenarioSpec::simulator_metrics, "Metrics that only the simulator provides.")
      .def_ro("usual", &sim::ScenarioSpec::is_default, "If false, the scenario is simulated only on request.")
      .def_ro("policies", &sim::ScenarioSpec::num_policies, "The maximum number of policies in one run.")
      .def_ro("repetitions", &sim::ScenarioSpec::repetitions, "The default number of repetitions of a case.")
      .def_ro("of_nodes", &sim::ScenarioSpec::has_nodes_parameter, "Whether the scenario has the parameter `nodes`.");
  nb::class_<sim::PairPlacement>(module, "Place")
      .def(
          "__init__",
          [](sim::PairPlacement* place, bool between_nodes, int own, int peer) {
            new (place) sim::PairPlacement{between_nodes, own, peer};
          },
          nb::arg("between_nodes"), nb::arg("own"), nb::arg("peer"));
  bind_readable(nb::class_<sim::Result>(module, "Result", "One number with its metric and configuration."),
                field("metric", &sim::Result::metric), field("unit", &sim::Result::unit),
                field("side", &sim::Result::side), field("variant", &sim::Result::variant),
                field("speed", &sim::Result::speed), field("value", &sim::Result::value),
                field("low", &sim::Result::low), field("high", &sim::Result::high), field("n", &sim::Result::n),
                field("reason", &sim::Result::reason));
}

// Returns the numbers of links between node 0 and each of the nodes 0 to `nodes` - 1.
std::vector<int> hops_from_first_node(const Machine& machine, int nodes) {
  const auto topology = sim::make_topology(machine.network.value(), nodes);
  std::vector<int> hops_by_node;
  for (int node = 0; node < nodes; ++node) hops_by_node.push_back(topology->num_hops(0, node));
  return hops_by_node;
}

// Throws if the user has pressed Ctrl-C; the simulation calls it periodically.
void throw_if_interrupted() {
  const nb::gil_scoped_acquire python;
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

std::vector<sim::Result> run_scenario(const std::string& scenario, const Machine& machine,
                                      const sim::PairPlacement& place, const Parameters& parameters,
                                      const std::vector<std::string>& policies,
                                      const std::vector<double>& memory_slowdown, std::optional<int> repetitions,
                                      bool has_memory_effects) {
  const nb::gil_scoped_release gil_release;
  const sim::SimulationSettings settings{policies, memory_slowdown, repetitions, has_memory_effects};
  return sim::find_scenario(scenario).run({machine, place, parameters, settings, throw_if_interrupted});
}

}  // namespace

void bind_simulation(nb::module_& parent) {
  nb::module_ module = parent.def_submodule("simulation", "Scenarios on simulated machines.");
  bind_variants(module);
  bind_scenarios(module);
  module.attr("max_policies") = sim::max_variants;
  module.attr("max_slowdowns") = sim::num_memory_speeds;
  module.def(
      "words", &variant_names, nb::arg("key"),
      "Returns the valid values of the key 'policy', 'topology', 'replacement', 'network' (protocols between nodes) or "
      "'node' (protocols inside a node).");
  module.def("scenarios", &sim::all_scenarios, nb::rv_policy::reference);
  module.def("stencil_rows", &stencil_rows, nb::arg("variant"), nb::arg("rows"),
             "Returns the rows that the stencil of paper S0 updates before its exchange, and those after it, in order. "
             "Each row is a pair (index, whether its columns are updated in descending order).");
  module.def("hops", &hops_from_first_node, nb::arg("machine"), nb::arg("nodes"),
             "Returns the number of links between node 0 and each node.");
  module.def(
      "unable",
      [](const std::string& scenario, const Machine& machine, const sim::PairPlacement& place) {
        return sim::find_scenario(scenario).unsupported_reason(machine, place);
      },
      nb::arg("scenario"), nb::arg("machine"), nb::arg("place"),
      "Returns why the scenario cannot be simulated on the machine, or ''.");
  module.def(
      "cases",
      [](const std::string& scenario, const Machine& machine, const sim::PairPlacement& place, const std::string& tier,
         const std::vector<std::int64_t>& sizes, const std::vector<int>& nodes) {
        return sim::find_scenario(scenario).cases(machine, place, {{tier, sizes, sim::llc_bytes(machine)}, nodes});
      },
      nb::arg("scenario"), nb::arg("machine"), nb::arg("place"), nb::arg("tier"), nb::arg("sizes"), nb::arg("nodes"),
      "Returns the parameters of each case of a tier (quick, default or full).");
  module.def("run", &run_scenario, nb::arg("scenario"), nb::arg("machine"), nb::arg("place"), nb::arg("parameters"),
             nb::arg("policies") = std::vector<std::string>{}, nb::arg("memory_slowdown") = std::vector<double>{1},
             nb::arg("repetitions") = nb::none(), nb::arg("memory_effects") = true,
             "Simulates one case and returns its results. Without `policies`, the NIC has the policy of the machine "
             "description. With 0 repetitions, a collective or an application is only set up. Raises ValueError if the "
             "case cannot be simulated.");
}

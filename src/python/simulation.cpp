// nearfield._native.simulation: collectives and applications on a simulated cluster, by names and plain numbers.
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "sim/app/application.hpp"
#include "sim/collective.hpp"
#include "sim/collectives/measure.hpp"
#include "sim/nic/policy.hpp"

namespace nb = nanobind;
using namespace nearfield;

namespace {

using CountsByName = std::map<std::string, std::uint64_t>;

// One policy in one repetition.
struct Variant {
  std::string policy;
  std::vector<double> time_ns;       // per memory slowdown
  std::vector<std::uint64_t> polls;  // likewise: looks of cores at their event queues
  CountsByName counts;               // of all nodes together
};

struct Repetition {
  std::vector<Variant> variants;
  std::uint64_t events = 0, messages = 0, network_bytes = 0;
};

// Caches are counted from 1 here, as people do.
void add_caches(CountsByName& counts, const std::vector<sim::LevelCounts>& levels) {
  for (std::size_t l = 0; l < levels.size(); ++l) {
    const std::string name = "l" + std::to_string(l + 1) + "_";
    counts[name + "hits"] = levels[l].hits;
    counts[name + "misses"] = levels[l].misses;
    counts[name + "injected"] = levels[l].injections;
    counts[name + "injected_unused"] = levels[l].injected_unused;
    counts[name + "injected_victims"] = levels[l].injected_victims;
    counts[name + "victims_missed"] = levels[l].victims_missed;
  }
}

CountsByName counts_of(const sim::VariantOutcome& outcome) {
  const auto& dram = outcome.memory.dram;
  CountsByName counts{{"dram_reads", dram.reads},           {"dram_writes", dram.writes},
                      {"dram_prefetches", dram.prefetches}, {"dram_dma_reads", dram.dma_reads},
                      {"dram_dma_writes", dram.dma_writes}, {"dram_bytes", dram.bytes},
                      {"nic_events", outcome.nic.events},   {"nic_commands", outcome.nic.commands}};
  add_caches(counts, outcome.memory.levels);
  return counts;
}

Repetition plain(const sim::Repetition& repetition, std::size_t slowdowns) {
  Repetition result{{}, repetition.events, repetition.messages, repetition.network_bytes};
  for (std::size_t v = 0; v < repetition.variants.size(); ++v) {
    const auto& nic = repetition.variants[v].nic;
    Variant variant{repetition.variants[v].policy, {}, {}, counts_of(repetition.variants[v])};
    for (std::size_t lane = 0; lane < slowdowns; ++lane) {
      variant.time_ns.push_back(repetition.time[static_cast<int>(v)][static_cast<int>(lane)] / 1e3);
      variant.polls.push_back(nic.events + nic.empty_polls[lane]);
    }
    result.variants.push_back(std::move(variant));
  }
  return result;
}

sim::ClusterOptions options(int nodes, int ranks_per_node, const std::vector<std::string>& policies,
                            const std::vector<double>& slowdowns, bool memory_effects) {
  if (slowdowns.empty() || slowdowns.size() > sim::lanes)
    throw std::invalid_argument("memory_slowdown: from 1 to " + std::to_string(sim::lanes) + " of them");
  sim::ClusterOptions result;
  result.nodes = nodes;
  result.ranks_per_node = ranks_per_node;
  result.policies = policies;
  result.memory_effects = memory_effects;
  for (std::size_t lane = 0; lane < sim::lanes; ++lane)
    result.memory_slowdown[lane] = slowdowns[std::min(lane, slowdowns.size() - 1)];
  return result;
}

// Ctrl-C ends it soon.
void heed_signals() {
  const nb::gil_scoped_acquire python;
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

std::vector<Repetition> plain(const std::vector<sim::Repetition>& repetitions, std::size_t slowdowns) {
  std::vector<Repetition> result;
  for (const auto& one : repetitions) result.push_back(plain(one, slowdowns));
  return result;
}

std::vector<Repetition> run_application(const Machine& machine, const std::string& application, std::uint64_t bytes,
                                        int nodes, int ranks_per_node, const std::vector<std::string>& policies,
                                        const std::vector<double>& memory_slowdown, int repetitions,
                                        bool memory_effects) {
  const nb::gil_scoped_release others;
  sim::Cluster cluster(machine, options(nodes, ranks_per_node, policies, memory_slowdown, memory_effects));
  const auto workload = sim::find_application(application).make(cluster.ranks(), bytes);
  return plain(sim::measure(cluster, *workload, repetitions, heed_signals), memory_slowdown.size());
}

std::vector<Repetition> run_collective(const Machine& machine, const std::string& collective, std::uint64_t bytes,
                                       int nodes, int ranks_per_node, const std::vector<std::string>& policies,
                                       const std::vector<double>& memory_slowdown, int repetitions, int root,
                                       bool memory_effects) {
  const nb::gil_scoped_release others;
  sim::Cluster cluster(machine, options(nodes, ranks_per_node, policies, memory_slowdown, memory_effects));
  return plain(sim::measure_collective(cluster, {collective, bytes, root, repetitions}, heed_signals),
               memory_slowdown.size());
}

void bind_results(nb::module_& module) {
  nb::class_<Variant>(module, "Variant", "One policy in one repetition.")
      .def_ro("policy", &Variant::policy)
      .def_ro("time_ns", &Variant::time_ns)
      .def_ro("polls", &Variant::polls)
      .def_ro("counts", &Variant::counts);
  nb::class_<Repetition>(module, "Repetition",
                         "One call of the collective, or run of the application, by every policy.")
      .def_ro("variants", &Repetition::variants)
      .def_ro("events", &Repetition::events)
      .def_ro("messages", &Repetition::messages)
      .def_ro("network_bytes", &Repetition::network_bytes);
}

void bind_names(nb::module_& module) {
  nb::class_<sim::CollectiveSpec>(module, "Collective", "An operation, and what its size says.")
      .def_prop_ro("name", [](const sim::CollectiveSpec& spec) { return std::string(spec.name); })
      .def_prop_ro("summary", [](const sim::CollectiveSpec& spec) { return std::string(spec.summary); })
      .def_prop_ro("bytes_are", [](const sim::CollectiveSpec& spec) { return std::string(spec.bytes_are); })
      .def(
          "whole_bytes",
          [](const sim::CollectiveSpec& spec, std::uint64_t bytes, int ranks) {
            const auto sizes = spec.sizes(0, ranks, {0, 0, bytes, 0});
            return std::max(sizes.in_bytes, sizes.out_bytes);
          },
          nb::arg("bytes"), nb::arg("ranks"), "Of the longer buffer of the root, if sizes are `bytes`.");
  nb::class_<sim::ApplicationSpec>(module, "Application", "A program, and what its size says.")
      .def_prop_ro("name", [](const sim::ApplicationSpec& spec) { return std::string(spec.name); })
      .def_prop_ro("summary", [](const sim::ApplicationSpec& spec) { return std::string(spec.summary); })
      .def_prop_ro("bytes_are", [](const sim::ApplicationSpec& spec) { return std::string(spec.bytes_are); })
      .def_ro("usual_bytes", &sim::ApplicationSpec::usual_bytes);
  nb::class_<sim::PolicySpec>(module, "Policy", "Where a NIC puts what arrives.")
      .def_prop_ro("name", [](const sim::PolicySpec& spec) { return std::string(spec.name); })
      .def_prop_ro("summary", [](const sim::PolicySpec& spec) { return std::string(spec.summary); })
      .def_ro("levels", &sim::PolicySpec::levels)
      .def_prop_ro("parameters", [](const sim::PolicySpec& spec) {
        std::vector<std::string> names;
        for (const auto& parameter : spec.parameters) names.emplace_back(parameter.name);
        return names;
      });
  module.def("collectives", &sim::all_collectives, nb::rv_policy::reference);
  module.def("applications", &sim::all_applications, nb::rv_policy::reference);
  module.def("policies", &sim::all_policies, nb::rv_policy::reference);
  module.def(
      "check_policy", [](const std::string& text, const Machine& machine) { sim::PolicyChoice(text, machine); },
      nb::arg("text"), nb::arg("machine"), "ValueError if there is none such, or not on this machine.");
}

}  // namespace

void bind_simulation(nb::module_& module) {
  auto simulation = module.def_submodule("simulation", "Collectives and applications on simulated clusters.");
  bind_results(simulation);
  bind_names(simulation);
  simulation.attr("most_policies") = sim::most_variants;
  simulation.attr("most_slowdowns") = sim::lanes;
  simulation.def(
      "run_collective", &run_collective, nb::arg("machine"), nb::arg("collective"), nb::arg("bytes"), nb::arg("nodes"),
      nb::arg("ranks_per_node") = 1, nb::arg("policies") = std::vector<std::string>{"memory"},
      nb::arg("memory_slowdown") = std::vector<double>{1}, nb::arg("repetitions") = 7, nb::arg("root") = 0,
      nb::arg("memory_effects") = true,
      "One Repetition after the other, on caches as the one before left them. ValueError for what cannot be.");
  simulation.def("run_application", &run_application, nb::arg("machine"), nb::arg("application"), nb::arg("bytes"),
                 nb::arg("nodes"), nb::arg("ranks_per_node") = 1,
                 nb::arg("policies") = std::vector<std::string>{"memory"},
                 nb::arg("memory_slowdown") = std::vector<double>{1}, nb::arg("repetitions") = 1,
                 nb::arg("memory_effects") = true, "The same with an application, which is set up once before.");
}

// Binds nearfield._native.memory: the simulated memory of a node, for traces from Python and for checks of machine
// descriptions.
#include "sim/memory/memory.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/vector.h>

#include "machine/machine.hpp"
#include "python/members.hpp"
#include "sim/memory/counts.hpp"
#include "sim/memory/links.hpp"
#include "sim/memory/self_benchmark.hpp"

namespace nb = nanobind;
using namespace nearfield;
using namespace nearfield::sim;

namespace {

using Addresses = nb::ndarray<const std::uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

void replay_addresses(NodeMemory& memory, const Addresses& addresses, int core, Access kind, unsigned bytes) {
  nb::gil_scoped_release gil_release;
  memory.replay(core, {addresses.data(), addresses.size()}, kind, bytes);
}

void write_by_device(NodeMemory& memory, Address address, std::uint64_t bytes, const std::vector<int>& levels) {
  const ConfigClock now = memory.clock(0);
  if (levels.size() != static_cast<std::size_t>(now.num_variants()))
    throw std::invalid_argument("each variant has a level");
  std::vector<InjectionTarget> targets;
  for (const int level : levels) {
    if (level < InjectionTarget::memory || level >= static_cast<int>(memory.counts().levels.size()))
      throw std::invalid_argument("there is no such level");
    targets.push_back({level, 0, 0});
  }
  memory.dma_write(address, bytes, targets, now);
}

void bind_counts(nb::module_& module) {
  bind_counters(nb::class_<LevelCounts>(module, "LevelCounts"), field("hits", &LevelCounts::hits),
                field("misses", &LevelCounts::misses), field("evictions", &LevelCounts::evictions),
                field("write_backs", &LevelCounts::write_backs),
                field("back_invalidations", &LevelCounts::back_invalidations), field("snoops", &LevelCounts::snoops),
                field("invalidations", &LevelCounts::invalidations), field("prefetches", &LevelCounts::prefetches),
                field("injections", &LevelCounts::injections), field("injected_unused", &LevelCounts::injected_unused),
                field("injected_victims", &LevelCounts::injected_victims),
                field("victims_missed", &LevelCounts::victims_missed), field("device_hits", &LevelCounts::device_hits));
  bind_counters(nb::class_<DramCounts>(module, "DramCounts"), field("reads", &DramCounts::reads),
                field("writes", &DramCounts::writes), field("prefetches", &DramCounts::prefetches),
                field("bypass_reads", &DramCounts::bypass_reads), field("bypass_writes", &DramCounts::bypass_writes),
                field("dma_reads", &DramCounts::dma_reads), field("dma_writes", &DramCounts::dma_writes),
                field("bytes", &DramCounts::bytes));
  bind_counters(nb::class_<TlbCounts>(module, "TlbCounts"), field("hits", &TlbCounts::hits),
                field("misses", &TlbCounts::misses));
  bind_counters(nb::class_<Counts>(module, "Counts"), field("levels", &Counts::levels), field("dram", &Counts::dram),
                field("tlbs", &Counts::tlbs), field("page_faults", &Counts::page_faults),
                field("transfers", &Counts::transfers));
}

}  // namespace

void bind_simulated_memory(nb::module_& parent) {
  auto module = parent.def_submodule("memory", "The simulated memory of a node.");
  nb::enum_<Access>(module, "Access", nb::is_arithmetic())
      .value("load", Access::load)
      .value("store", Access::store)
      .value("chase", Access::chase)
      .value("index", Access::index)
      .value("gather", Access::gather)
      .value("load_bypass", Access::load_nontemporal)
      .value("store_bypass", Access::store_nontemporal);
  bind_counts(module);
  module.attr("max_cache_levels") = max_cache_levels;
  nb::class_<NodeMemory>(module, "Memory",
                         "The simulated memory of one node. The constructor raises ValueError for an impossible "
                         "geometry.")
      .def(nb::init<const Machine&, const std::array<double, num_memory_speeds>&, int>(), nb::arg("machine"),
           nb::arg("memory_slowdown") = std::array<double, num_memory_speeds>{1, 1, 1, 1}, nb::arg("variants") = 1)
      .def("replay", &replay_addresses, nb::arg("addresses"), nb::arg("core") = 0, nb::arg("kind") = Access::load,
           nb::arg("bytes") = 8, "Makes accesses of `bytes` bytes at these addresses (contiguous uint64), in order.")
      .def("sweep", &NodeMemory::sweep, nb::arg("core"), nb::arg("kind"), nb::arg("address"), nb::arg("count"),
           nb::arg("stride_bytes"), nb::arg("bytes"), nb::arg("work_ps") = 0, nb::call_guard<nb::gil_scoped_release>())
      .def("copy", &NodeMemory::copy, nb::arg("core"), nb::arg("to"), nb::arg("source"), nb::arg("bytes"),
           nb::call_guard<nb::gil_scoped_release>())
      .def("write_by_device", &write_by_device, nb::arg("address"), nb::arg("bytes"), nb::arg("levels"),
           "Simulates a DMA write at the present time of core 0's clock: in variant i, into core 0's cache of level "
           "levels[i], counted from 0, or to memory (-1).")
      .def("drain", &NodeMemory::drain, nb::arg("core"))
      .def("counts", [](const NodeMemory& memory) { return memory.counts(); })
      .def("reset_counts", &NodeMemory::reset_counts)
      .def(
          "now_ns",
          [](const NodeMemory& memory, int core) {
            std::array<double, num_memory_speeds> now{};
            for (int speed = 0; speed < num_memory_speeds; ++speed)
              now[static_cast<std::size_t>(speed)] = memory.now(core)[speed] / 1e3;
            return now;
          },
          nb::arg("core"), "Returns the core's time in ns at each memory speed.");
  module.def("chase_latencies_ns", &chase_latencies_ns, nb::arg("machine"), nb::call_guard<nb::gil_scoped_release>());
  module.def("chase_latency_from_ns", &chase_latency_from_ns, nb::arg("machine"), nb::arg("hub"),
             nb::call_guard<nb::gil_scoped_release>());
  module.def("hops_of_hubs", &hops_of_hubs, nb::arg("machine"),
             "Returns the number of links between routers from core 0's hub to each hub; [] if the machine has none.");
  module.def("copy_traffic_gb_per_s", &copy_traffic_gb_per_s, nb::arg("machine"),
             nb::call_guard<nb::gil_scoped_release>());
}

// nearfield._native.memory: the simulated memory of a node, for traces from Python and for checking machines.
#include "sim/memory/memory.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/vector.h>

#include "sim/memory/measure.hpp"

namespace nb = nanobind;
using namespace nearfield;
using namespace nearfield::sim;

namespace {

using Addresses = nb::ndarray<const std::uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
constexpr std::size_t batch = 4096;

void replay(Memory& memory, const Addresses& addresses, int core, Access kind, unsigned bytes) {
  nb::gil_scoped_release unlocked;
  std::vector<Memory::Reference> references(batch);
  for (std::size_t done = 0; done < addresses.size(); done += batch) {
    const auto count = std::min(batch, addresses.size() - done);
    for (std::size_t i = 0; i < count; ++i) references[i] = {addresses.data()[done + i], bytes, kind};
    memory.replay(core, {references.data(), count});
  }
}

void bind_counts(nb::module_& module) {
  nb::class_<LevelCounts>(module, "LevelCounts")
      .def_ro("hits", &LevelCounts::hits)
      .def_ro("misses", &LevelCounts::misses)
      .def_ro("evictions", &LevelCounts::evictions)
      .def_ro("write_backs", &LevelCounts::write_backs)
      .def_ro("back_invalidations", &LevelCounts::back_invalidations)
      .def_ro("snoops", &LevelCounts::snoops)
      .def_ro("invalidations", &LevelCounts::invalidations)
      .def_ro("prefetches", &LevelCounts::prefetches)
      .def_ro("injections", &LevelCounts::injections)
      .def_ro("injected_unused", &LevelCounts::injected_unused)
      .def_ro("injected_victims", &LevelCounts::injected_victims)
      .def_ro("victims_missed", &LevelCounts::victims_missed);
  nb::class_<DramCounts>(module, "DramCounts")
      .def_ro("reads", &DramCounts::reads)
      .def_ro("writes", &DramCounts::writes)
      .def_ro("prefetches", &DramCounts::prefetches)
      .def_ro("bypass_reads", &DramCounts::bypass_reads)
      .def_ro("bypass_writes", &DramCounts::bypass_writes)
      .def_ro("dma_reads", &DramCounts::dma_reads)
      .def_ro("dma_writes", &DramCounts::dma_writes)
      .def_ro("bytes", &DramCounts::bytes);
  nb::class_<TlbCounts>(module, "TlbCounts").def_ro("hits", &TlbCounts::hits).def_ro("misses", &TlbCounts::misses);
  nb::class_<Counts>(module, "Counts")
      .def_ro("levels", &Counts::levels)
      .def_ro("dram", &Counts::dram)
      .def_ro("tlbs", &Counts::tlbs)
      .def_ro("page_faults", &Counts::page_faults)
      .def_ro("transfers", &Counts::transfers);
}

}  // namespace

void bind_simulated_memory(nb::module_& parent) {
  auto module = parent.def_submodule("memory", "The simulated memory of a node.");
  nb::enum_<Access>(module, "Access")
      .value("load", Access::load)
      .value("store", Access::store)
      .value("chase", Access::chase)
      .value("load_bypass", Access::load_bypass)
      .value("store_bypass", Access::store_bypass);
  bind_counts(module);
  module.attr("most_cache_levels") = most_cache_levels;
  nb::class_<Memory>(module, "Memory", "One node's memory; ValueError for a geometry that cannot be.")
      .def(nb::init<const Machine&, const std::array<double, speeds>&>(), nb::arg("machine"),
           nb::arg("memory_slowdown") = std::array<double, speeds>{1, 1, 1, 1})
      .def("replay", &replay, nb::arg("addresses"), nb::arg("core") = 0, nb::arg("kind") = Access::load,
           nb::arg("bytes") = 8, "Accesses of so many bytes at these addresses (uint64, contiguous), in order.")
      .def("sweep", &Memory::sweep, nb::arg("core"), nb::arg("kind"), nb::arg("address"), nb::arg("count"),
           nb::arg("stride_bytes"), nb::arg("bytes"), nb::call_guard<nb::gil_scoped_release>())
      .def("drain", &Memory::drain, nb::arg("core"))
      .def("counts", &Memory::counts)
      .def("reset_counts", &Memory::reset_counts)
      .def(
          "now_ns",
          [](const Memory& memory, int core) {
            std::array<double, speeds> now{};
            for (int speed = 0; speed < speeds; ++speed)
              now[static_cast<std::size_t>(speed)] = memory.now(core)[speed] / 1e3;
            return now;
          },
          nb::arg("core"), "Returns the time of the core on the clock of every memory speed.");
  module.def("chase_latencies_ns", &chase_latencies_ns, nb::arg("machine"), nb::call_guard<nb::gil_scoped_release>());
  module.def("copy_traffic_gb_per_s", &copy_traffic_gb_per_s, nb::arg("machine"),
             nb::call_guard<nb::gil_scoped_release>());
}

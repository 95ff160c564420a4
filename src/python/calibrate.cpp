// Binds nearfield._native.calibration: micro-benchmarks of this machine.
#include <nanobind/nanobind.h>
#include <nanobind/stl/vector.h>

#include "calibrate/benchmarks.hpp"

namespace nb = nanobind;
using namespace nearfield::calibrate;

void bind_calibration(nb::module_& parent) {
  nb::module_ module = parent.def_submodule(
      "calibration", "Micro-benchmarks of this machine. Each returns samples in ns; callers must pin their thread.");
  const nb::call_guard<nb::gil_scoped_release> gil_release;
  nb::enum_<PageKind>(module, "PageKind").value("base", PageKind::base).value("huge", PageKind::huge);
  nb::enum_<CopyRoutine>(module, "CopyRoutine")
      .value("memcpy", CopyRoutine::memcpy)
      .value("streaming", CopyRoutine::streaming);
  nb::enum_<PairStep>(module, "PairStep")
      .value("chase_written", PairStep::chase_written)
      .value("read_written", PairStep::read_written)
      .value("store_written", PairStep::store_written)
      .value("store_read", PairStep::store_read);
  nb::class_<MemoryBlock>(module, "Block", "Memory in base or huge pages, written once.")
      .def(nb::init<std::size_t, PageKind>(), nb::arg("bytes"), nb::arg("pages") = PageKind::base)
      .def_prop_ro("bytes", &MemoryBlock::size)
      .def_prop_ro("bytes_in_huge_pages", &MemoryBlock::bytes_in_huge_pages);
  module.attr("max_chains") = max_chains;
  module.def("clock_reading_ns", &measure_clock_reading_ns, nb::arg("samples"), gil_release);
  module.def("addition_ns", &measure_addition_ns, nb::arg("samples"), gil_release);
  module.def("misprediction_ns", &measure_misprediction_ns, nb::arg("samples"), gil_release);
  module.def(
      "chase_ns",
      [](const MemoryBlock& block, std::size_t bytes, std::size_t stride_bytes, int chains, bool in_order,
         int num_samples) { return measure_chase_ns(block, {bytes, stride_bytes, chains, in_order}, num_samples); },
      nb::arg("block"), nb::arg("bytes"), nb::arg("stride_bytes") = 64, nb::arg("chains") = 1,
      nb::arg("in_order") = false, nb::arg("samples") = 50, gil_release, "Returns samples of the ns per load.");
  module.def("read_ns", &measure_read_ns, nb::arg("block"), nb::arg("bytes"), nb::arg("samples") = 50, gil_release);
  module.def("copy_ns", &measure_copy_ns, nb::arg("to"), nb::arg("source"), nb::arg("bytes"),
             nb::arg("routine") = CopyRoutine::memcpy, nb::arg("samples") = 50, gil_release,
             "Returns samples of the ns per copy.");
  module.def("kernel_copy_ns", &measure_kernel_copy_ns, nb::arg("to"), nb::arg("source"), nb::arg("bytes"),
             nb::arg("pu"), nb::arg("other_pu"), nb::arg("samples") = 50, gil_release,
             "Returns samples of the ns per copy from a process on the other PU; none if the kernel denies the copy.");
  module.def("first_touch_ns", &measure_first_touch_ns, nb::arg("pages_per_sample"), nb::arg("pages") = PageKind::base,
             nb::arg("samples") = 50, gil_release, "Returns samples of the ns per page.");
  module.def("pair_ns", &measure_pair_ns, nb::arg("block"), nb::arg("bytes"), nb::arg("step"), nb::arg("pu"),
             nb::arg("other_pu"), nb::arg("samples") = 20, gil_release,
             "Returns samples of the ns per line of 64 bytes.");
}

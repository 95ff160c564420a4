// Binds nearfield._native.trace: the simulated memory addressed by virtual addresses of programs, and readers of
// traces.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include "base/registry.hpp"
#include "python/members.hpp"
#include "python/text.hpp"
#include "trace/reader.hpp"

namespace nb = nanobind;
using namespace nearfield;
using namespace nearfield::trace;

namespace {

template <class Number>
using Array = nb::ndarray<const Number, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

void perform_accesses(VirtualMemory& memory, const Array<std::uint64_t>& addresses, sim::Access kind,
                      std::uint32_t bytes, int core) {
  nb::gil_scoped_release gil_release;
  for (std::size_t i = 0; i < addresses.size(); ++i) memory.access(core, kind, addresses.data()[i], bytes);
}

void perform_accesses_of_kinds(VirtualMemory& memory, const Array<std::uint64_t>& addresses,
                               const Array<std::uint8_t>& kinds, std::uint32_t bytes, int core) {
  nb::gil_scoped_release gil_release;
  for (std::size_t i = 0; i < addresses.size(); ++i)
    memory.access(core, static_cast<sim::Access>(kinds.data()[i]), addresses.data()[i], bytes);
}

void bind_memory(nb::module_& module) {
  nb::class_<VirtualMemory>(module, "Memory", "One node's memory, for 64-bit virtual addresses.")
      .def(nb::init<const Machine&, const std::array<double, sim::num_memory_speeds>&>(), nb::arg("machine"),
           nb::arg("memory_slowdown"))
      .def("run", &perform_accesses, nb::arg("addresses"), nb::arg("kind"), nb::arg("bytes"), nb::arg("core"))
      .def("run", &perform_accesses_of_kinds, nb::arg("addresses"), nb::arg("kinds"), nb::arg("bytes"), nb::arg("core"),
           "Makes accesses at these addresses; kinds[i], a value of Access, is the kind of the access at addresses[i].")
      .def("counts", &VirtualMemory::counts)
      .def("reset_counts", &VirtualMemory::reset_counts)
      .def(
          "finished_ns",
          [](VirtualMemory& memory) {
            auto times = memory.drain_all_cores().at;
            for (auto& time : times) time /= 1e3;
            return times;
          },
          "Waits until all accesses have completed. Returns the time in ns of the core whose clock is furthest ahead, "
          "at each memory speed.");
}

void bind_readers(nb::module_& module) {
  bind_readable(nb::class_<FormatSpec>(module, "Format"), field("name", &FormatSpec::name),
                field("summary", &FormatSpec::summary), field("expected", &FormatSpec::record_example));
  bind_readable(nb::class_<AccessSink>(module, "Accesses", "Receives the accesses of traces, and counts them.")
                    .def(
                        "__init__",
                        [](AccessSink* accesses, VirtualMemory& memory, Count skip, std::optional<Count> limit,
                           bool instructions, bool chase) {
                          new (accesses) AccessSink(
                              memory,
                              AccessSink::Options{skip, limit.value_or(AccessSink::no_limit), instructions, chase});
                        },
                        nb::arg("memory"), nb::arg("skip"), nb::arg("limit").none(), nb::arg("instructions"),
                        nb::arg("chase") = false, nb::keep_alive<1, 2>())
                    .def_prop_ro("full", &AccessSink::is_limit_reached)
                    .def_prop_ro("threads", &AccessSink::num_threads),
                field("loads", &AccessSink::loads), field("stores", &AccessSink::stores),
                field("instructions", &AccessSink::instructions), field("others", &AccessSink::unsimulated_records),
                field("skipped", &AccessSink::skipped));
  nb::class_<TraceReader>(module, "Reader", "Reads one trace. Raises ValueError for a record that cannot be read.")
      .def(
          "__init__",
          [](TraceReader* reader, const std::string& format, AccessSink& accesses) {
            new (reader) TraceReader(find_named(all_formats(), format, "format of traces"), accesses);
          },
          nb::arg("format"), nb::arg("accesses"), nb::keep_alive<1, 3>())
      .def(
          "feed",
          [](TraceReader& reader, nb::bytes piece) {
            const std::string_view bytes(piece.c_str(), piece.size());
            nb::gil_scoped_release gil_release;
            reader.feed(bytes);
          },
          nb::arg("bytes"))
      .def("finish", &TraceReader::finish_trace);
}

}  // namespace

void bind_traces(nb::module_& parent) {
  auto module = parent.def_submodule("trace", "Traces of programs' accesses.");
  bind_memory(module);
  bind_readers(module);
  module.def("formats", &all_formats, nb::rv_policy::reference, "Returns all formats of traces.");
  module.def(
      "recognised",
      [](nb::bytes beginning) {
        const auto* format = recognize_format({beginning.c_str(), beginning.size()});
        return format ? format->name : std::string();
      },
      nb::arg("beginning"),
      "Returns the name of the format that these first lines of a trace have; empty if no format fits.");
}

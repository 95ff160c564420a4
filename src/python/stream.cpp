// Binds nearfield._native.stream: readers of the streams of observed programs.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <exception>

#include "python/members.hpp"
#include "python/text.hpp"
#include "trace/stream/live.hpp"
#include "trace/stream/reader.hpp"

namespace nb = nanobind;
using namespace nearfield::stream;

namespace {

template <class Value>
nb::object to_python(const Value& value) {
  if constexpr (std::is_same_v<Value, bool>) {
    return nb::bool_(value);
  } else if constexpr (std::is_enum_v<Value>) {
    return nb::int_(static_cast<int>(value));
  } else if constexpr (std::is_integral_v<Value>) {
    return nb::int_(value);
  } else if constexpr (std::is_same_v<Value, std::string>) {
    return nb::cast(value);
  } else if constexpr (requires { value.size(); }) {
    nb::list list;
    for (const auto& one : value) list.append(to_python(one));
    return list;
  } else {
    nb::dict fields;
    Value::visit_fields(value, [&](const char* name, const auto& member) { fields[name] = to_python(member); });
    return fields;
  }
}

nb::object event_to_python(const Event& event) {
  return std::visit(
      []<class Kind>(const Kind& one) -> nb::object { return nb::make_tuple(Kind::event_name, to_python(one)); },
      event);
}

template <class Number>
nb::ndarray<nb::numpy, Number, nb::ndim<1>> to_numpy_array(std::vector<Number>&& numbers) {
  auto* const owned = new std::vector<Number>(std::move(numbers));
  const nb::capsule owner(owned, [](void* pointer) noexcept { delete static_cast<std::vector<Number>*>(pointer); });
  return {owned->data(), {owned->size()}, owner};
}

// Reads at most `max_count` accesses, up to the next event. Returns a tuple of arrays: addresses, bytes, flags (1 for a
// store), and access sites.
nb::object read_accesses(StreamReader& reader, std::size_t max_count) {
  std::vector<Reference> accesses(max_count);
  {
    nb::gil_scoped_release gil_release;
    std::size_t count = 0, more = 0;
    while ((more = reader.read_accesses(std::span(accesses).subspan(count)))) count += more;
    accesses.resize(count);
  }
  std::vector<std::uint64_t> addresses;
  std::vector<std::uint32_t> bytes, sites;
  std::vector<std::uint8_t> stores;
  for (const Reference& one : accesses) {
    addresses.push_back(one.address);
    bytes.push_back(one.bytes);
    stores.push_back(one.is_store);
    sites.push_back(one.site);
  }
  return nb::make_tuple(to_numpy_array(std::move(addresses)), to_numpy_array(std::move(bytes)),
                        to_numpy_array(std::move(stores)), to_numpy_array(std::move(sites)));
}

struct AccessCounts {
  std::uint64_t loads = 0, stores = 0, bytes = 0;
};

// The number of accesses by each access site (an instruction of the program).
struct SiteCounts {
  std::vector<std::uint64_t> accesses;
};

// Reads and counts the accesses up to the next event; adds the accesses of each site to `counts`, if not null.
AccessCounts count_accesses(StreamReader& reader, SiteCounts* counts) {
  nb::gil_scoped_release gil_release;
  AccessCounts totals;
  std::array<Reference, 4096> batch;
  while (const std::size_t count = reader.read_accesses(batch))
    for (const Reference& one : std::span(batch).first(count)) {
      ++(one.is_store ? totals.stores : totals.loads);
      totals.bytes += one.bytes;
      if (!counts) continue;
      if (one.site >= counts->accesses.size()) counts->accesses.resize(one.site + 1);
      ++counts->accesses[one.site];
    }
  return totals;
}

// Translates BrokenStream for Python. The message may contain a file name that is not valid UTF-8.
void raise_broken_stream(const std::exception_ptr& thrown, void* type) {
  try {
    std::rethrow_exception(thrown);
  } catch (const BrokenStream& broken) {
    PyErr_SetObject(static_cast<PyObject*>(type), nb::cast(std::string(broken.what())).ptr());
  }
}

nb::object next_event(StreamReader& reader) {
  const Event* const event = reader.next_event();
  return event ? event_to_python(*event) : nb::none();
}

}  // namespace

void bind_streams(nb::module_& module) {
  auto inner = module.def_submodule("stream", "Reading the streams of observed programs.");
  const nb::exception<BrokenStream> broken(inner, "BrokenStream", PyExc_RuntimeError);
  nb::register_exception_translator(raise_broken_stream, broken.ptr());
  bind_readable(nb::class_<ChunkHeader>(inner, "Chunk"), field("flags", &ChunkHeader::flags),
                field("raw_bytes", &ChunkHeader::raw_bytes), field("stored_bytes", &ChunkHeader::stored_bytes),
                field("accesses", &ChunkHeader::accesses));
  bind_readable(nb::class_<Site>(inner, "Site"), field("object", &Site::object), field("offset", &Site::offset),
                field("kind", &Site::kind));
  bind_readable(nb::class_<AccessCounts>(inner, "Passed"), field("loads", &AccessCounts::loads),
                field("stores", &AccessCounts::stores), field("bytes", &AccessCounts::bytes));
  nb::class_<SiteCounts>(inner, "SiteCounts", "How often each site accessed memory.")
      .def(nb::init<>())
      .def_ro("accesses", &SiteCounts::accesses);
  nb::class_<LiveStreams>(inner, "Live", "The streams of a program that still runs, on this host.")
      .def(nb::init<>())
      .def_prop_ro("address", &LiveStreams::address, "The value that NEARFIELD_OBSERVE must have for the program.")
      .def("save_to", &LiveStreams::save_to, nb::arg("folder"), "From now on, also writes all streams into a folder.")
      .def_prop_ro("save_error", &LiveStreams::save_error,
                   "The reason why the streams could not be saved; empty if they were saved.")
      .def_prop_ro("ranks", &LiveStreams::num_ranks, "The number of ranks; 0 until all of them are in MPI_Init.")
      .def_prop_ro("idle", &LiveStreams::has_no_sender, "Whether no process is connected.")
      .def("read_until_eof", &LiveStreams::read_until_eof,
           "Reads all data that the ranks have sent. Must be called after the command has ended.")
      .def("discard_unread", &LiveStreams::discard_unread,
           "Declares that the streams will not be read any more: further data are only saved, or discarded.")
      .def("close", &LiveStreams::close_connections, "Ends all connections and all pending reads.");
  nb::class_<StreamReader>(
      inner, "Reader",
      "Reads one rank's stream once, from its beginning. Raises BrokenStream, with the byte offset, if the "
      "stream is damaged.")
      .def(nb::init<const std::string&>(), nb::arg("path"))
      .def("accesses", &read_accesses, nb::arg("max_count"),
           "Reads at most `max_count` accesses, up to the next event. Returns arrays of addresses, bytes, flags (1 for "
           "a store), and access sites; they are empty if an event or the end of the stream comes next.")
      .def("pass_accesses", &count_accesses, nb::arg("counts").none() = nb::none(),
           "Reads and counts the accesses up to the next event, and adds the accesses of each site to `counts`.")
      .def("event", &next_event, nb::sig("def event(self) -> tuple[str, dict[str, typing.Any]] | None"),
           "Returns the next event, its name and fields; None at the end of the stream.")
      .def("skip_to_last_chunk", &StreamReader::skip_to_last_chunk,
           "Skips all chunks before the last one that is not empty, without reading them.")
      .def_prop_ro("chunks", &StreamReader::chunks, "The headers of the chunks read so far.")
      .def_prop_ro("sites", &StreamReader::sites, "The access sites read so far; accesses refer to them by index.");
}

#include "preload/observe/mpi/layouts.hpp"

#include <unordered_map>

#include "preload/observe/mpi/flatten.hpp"
#include "preload/observe/mpi/wrapper.hpp"

namespace nearfield::observe {
namespace {

std::unordered_map<std::uint64_t, KnownLayout>& known_layouts() {
  static auto& only = *new std::unordered_map<std::uint64_t, KnownLayout>;  // never destroyed, as in call.cpp
  return only;
}

std::string name_of_datatype(MPI_Datatype type) {
  char name[MPI_MAX_OBJECT_NAME + 1] = "";
  int length = 0;
  PMPI(MPI_Type_get_name)(type, name, &length);
  return *name ? name : constructor_of(type);
}

// Returns a single run that covers all bytes of the datatype, for datatypes with too many runs.
stream::LayoutRun whole_extent(MPI_Datatype type) {
  MPI_Count lower = 0, extent = 0;
  PMPI(MPI_Type_get_true_extent_x)(type, &lower, &extent);
  return {lower, static_cast<stream::Number>(extent), 1, 0};
}

stream::Layout describe_datatype(MPI_Datatype type) {
  MPI_Count size = 0, lower = 0, extent = 0;
  PMPI(MPI_Type_size_x)(type, &size);
  PMPI(MPI_Type_get_extent_x)(type, &lower, &extent);
  stream::Layout event{0, static_cast<stream::Number>(size), extent, {}, name_of_datatype(type)};
  const Runs runs = flatten_datatype(type);
  event.runs = runs.list();
  if (runs.is_truncated()) {
    event.runs = {whole_extent(type)};
    mark_unsupported("a datatype of more than " + std::to_string(Runs::max_runs) + " runs of blocks");
  } else if (runs.size_bytes() != event.size_bytes) {
    mark_unsupported("a datatype whose blocks MPI does not tell");
  }
  return event;
}

}  // namespace

const KnownLayout& layout_of(MPI_Datatype type) {
  static stream::Number numbers = 0;
  // Some programs pass MPI_DATATYPE_NULL with a count of 0.
  if (type == MPI_DATATYPE_NULL) type = MPI_BYTE;
  const auto [found, is_new] = known_layouts().try_emplace(key_of(type));
  if (is_new) {
    stream::Layout event = describe_datatype(type);
    event.layout = ++numbers;
    found->second = {event.layout, event.extent_bytes};
    record(event);
  }
  return found->second;
}

}  // namespace nearfield::observe

using namespace nearfield::observe;

// Forgets the layout of the datatype, without an event: messages that used the datatype keep their layout. Also forgets
// it inside calls that are not recorded, since the next datatype may have the same handle, wherever it is created.
extern "C" __attribute__((visibility("default"))) int MPI_Type_free(MPI_Datatype* type) {
  if (detail::is_recorded_thread) known_layouts().erase(key_of(*type));
  return PMPI(MPI_Type_free)(type);
}
extern "C" __attribute__((visibility("default"), alias("MPI_Type_free"))) decltype(MPI_Type_free) PMPI_Type_free;

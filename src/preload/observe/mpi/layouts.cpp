#include "preload/observe/mpi/layouts.hpp"

#include <unordered_map>

#include "preload/observe/mpi/flatten.hpp"
#include "preload/observe/mpi/wrapper.hpp"

namespace nearfield::observe {
namespace {

std::unordered_map<std::uint64_t, RecordedLayout>& recorded_layouts() {
  static auto& instance = *new std::unordered_map<std::uint64_t, RecordedLayout>;  // never destroyed, as in call.cpp
  return instance;
}

std::string name_of_datatype(MPI_Datatype type) {
  char name[MPI_MAX_OBJECT_NAME + 1] = "";
  int length = 0;
  PMPI(MPI_Type_get_name)(type, name, &length);
  return *name ? name : constructor_name_of(type);
}

// Returns a single run that covers all bytes of the datatype, for datatypes with too many runs.
stream::LayoutRun run_over_whole_extent(MPI_Datatype type) {
  MPI_Count lower = 0, extent = 0;
  PMPI(MPI_Type_get_true_extent_x)(type, &lower, &extent);
  return {lower, static_cast<stream::Number>(extent), 1, 0};
}

stream::Layout describe_datatype(MPI_Datatype type) {
  MPI_Count size = 0, lower = 0, extent = 0;
  PMPI(MPI_Type_size_x)(type, &size);
  PMPI(MPI_Type_get_extent_x)(type, &lower, &extent);
  stream::Layout event{0, static_cast<stream::Number>(size), extent, {}, name_of_datatype(type)};
  const BlockRuns runs = flatten_datatype(type);
  event.runs = runs.runs();
  if (runs.is_truncated()) {
    event.runs = {run_over_whole_extent(type)};
    mark_unsupported("a datatype of more than " + std::to_string(BlockRuns::max_runs) + " runs of blocks");
  } else if (runs.size_bytes() != event.size_bytes) {
    mark_unsupported("a datatype whose blocks MPI does not tell");
  }
  return event;
}

}  // namespace

const RecordedLayout& find_or_record_layout(MPI_Datatype type) {
  static stream::Number last_number = 0;
  // Some programs pass MPI_DATATYPE_NULL with a count of 0.
  if (type == MPI_DATATYPE_NULL) type = MPI_BYTE;
  const auto [found, is_new] = recorded_layouts().try_emplace(key_of_handle(type));
  if (is_new) {
    stream::Layout event = describe_datatype(type);
    event.layout = ++last_number;
    found->second = {event.layout, event.extent_bytes};
    record_event(event);
  }
  return found->second;
}

}  // namespace nearfield::observe

using namespace nearfield::observe;

// Removes the datatype's layout from the table; writes no event, since messages that used the datatype keep their
// layout. Does so even in calls that are not recorded, because a datatype created later may reuse the handle.
extern "C" __attribute__((visibility("default"))) int MPI_Type_free(MPI_Datatype* type) {
  if (detail::is_recorded_thread) recorded_layouts().erase(key_of_handle(*type));
  return PMPI(MPI_Type_free)(type);
}
extern "C" __attribute__((visibility("default"), alias("MPI_Type_free"))) decltype(MPI_Type_free) PMPI_Type_free;

// Wrappers of MPI_Init, MPI_Finalize, MPI_Abort and MPI_Pcontrol. Programs that start MPI only by MPI_Session_init are
// not recorded, nor are processes started by MPI_Comm_spawn, whose ranks belong to another MPI_COMM_WORLD.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "preload/observe/mpi/communicators.hpp"
#include "preload/observe/mpi/live_session.hpp"
#include "preload/observe/mpi/static_memory.hpp"
#include "preload/observe/mpi/wrapper.hpp"

namespace nearfield::observe {
namespace {

// Exits with an error message if the loaded MPI library is not the one for which this library was built: its handles
// and constants would have another representation.
void require_matching_library() {
  if (is_built_for_loaded_mpi()) return;
  std::fprintf(stderr, "nearfield: this program's MPI is another one than the profiling layer was built for\n");
  std::exit(1);
}

stream::RankInfo describe_rank() {
  stream::RankInfo event;
  int rank = 0, ranks = 1, length = 0;
  PMPI(MPI_Comm_rank)(MPI_COMM_WORLD, &rank);
  PMPI(MPI_Comm_size)(MPI_COMM_WORLD, &ranks);
  char host[MPI_MAX_PROCESSOR_NAME + 1] = "", library[MPI_MAX_LIBRARY_VERSION_STRING + 1] = "";
  PMPI(MPI_Get_processor_name)(host, &length);
  PMPI(MPI_Get_library_version)(library, &length);
  library[std::strcspn(library, "\r\n")] = '\0';
  std::replace(library, library + std::strlen(library), '\t', ' ');
  return {static_cast<stream::Number>(rank), static_cast<stream::Number>(ranks), host, library};
}

bool is_spawned() {
  MPI_Comm parent = MPI_COMM_NULL;
  PMPI(MPI_Comm_get_parent)(&parent);
  return parent != MPI_COMM_NULL;
}

// `initialize` calls the MPI library's own function. Starts the recording if this process is observed.
template <class Initialize>
int initialize_and_record(FunctionName& name, const void* site, Initialize initialize) {
  const bool is_observed = find_hook_functions();
  if (!is_observed) return initialize();
  pause_access_recording();
  require_matching_library();
  ++detail::call_depth;
  const int result = initialize();
  --detail::call_depth;
  if (result == MPI_SUCCESS && !is_spawned()) {
    begin_recording(describe_rank());
    const Call call(name, site);
    record_predefined_communicators();
    record_event(static_and_stack_ranges());
  }
  resume_access_recording();
  return result;
}

}  // namespace
}  // namespace nearfield::observe

using namespace nearfield::observe;

#define WRAP_INIT(name, parameters, arguments)                                                                 \
  NEARFIELD_EXPORT int name parameters {                                                                       \
    static FunctionName mpi_name{#name};                                                                       \
    return initialize_and_record(mpi_name, __builtin_return_address(0), [&] { return PMPI(name) arguments; }); \
  }                                                                                                            \
  NEARFIELD_EXPORT_PMPI(name)

WRAP_INIT(MPI_Init, (int* argc, char*** argv), (argc, argv))
WRAP_INIT(MPI_Init_thread, (int* argc, char*** argv, int required, int* provided), (argc, argv, required, provided))

namespace {
int finalize_recorded(FunctionName& name, const void* site) {
  const Call call(name, site);
  return PMPI(MPI_Finalize)();
}

// Writes the End event before the rank waits for other ranks in MPI_Finalize, since a live simulation must know that
// the rank has ended.
int finalize_live(FunctionName& name, const void* site) {
  {
    const Call call(name, site);
  }
  record_event(stream::End{});
  flush_stream();
  live_session().finish_sends();
  end_recording(false);
  return PMPI(MPI_Finalize)();
}
}  // namespace

NEARFIELD_EXPORT int MPI_Finalize() {
  static FunctionName name{"MPI_Finalize"};
  if (is_live() && detail::call_depth == 0 && detail::is_recorded_thread && detail::is_active)
    return finalize_live(name, __builtin_return_address(0));
  const int result = finalize_recorded(name, __builtin_return_address(0));
  if (detail::call_depth == 0 && detail::is_recorded_thread && detail::is_active) end_recording(true);
  return result;
}
NEARFIELD_EXPORT_PMPI(MPI_Finalize)

DEFINE_WRAPPER(MPI_Abort, (MPI_Comm comm, int code), (comm, code)) {
  mark_unsupported("MPI_Abort");
  end_recording(false);
  return PMPI(MPI_Abort)(comm, code);
}

// MPI defines no meaning for the arguments after `level`, so they are not passed on to the MPI library, whose function
// does nothing.
NEARFIELD_EXPORT int MPI_Pcontrol(const int level, ...) {
  static FunctionName name{"MPI_Pcontrol"};
  const Call call(name, __builtin_return_address(0));
  if (call.is_recorded()) {
    record_event(stream::Region{text_number("pcontrol"), level});
    begin_or_end_region(level > 0);
  }
  return PMPI(MPI_Pcontrol)(level);
}
NEARFIELD_EXPORT_PMPI(MPI_Pcontrol)

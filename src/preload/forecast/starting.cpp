// Wrappers of MPI_Init and MPI_Finalize. The run that a forecast describes lasts from the end of MPI_Init to the
// beginning of MPI_Finalize. Programs that start MPI only by MPI_Session_init are not recorded.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "preload/forecast/communicators.hpp"
#include "preload/forecast/describe.hpp"
#include "preload/forecast/polls.hpp"
#include "preload/forecast/record.hpp"
#include "preload/mpi/handles.hpp"

using namespace nearfield::forecast;

namespace {

void record_identity(Header& head) {
  PMPI(MPI_Comm_rank)(MPI_COMM_WORLD, &head.rank);
  PMPI(MPI_Comm_size)(MPI_COMM_WORLD, &head.ranks);
  MPI_Comm parent = MPI_COMM_NULL;
  PMPI(MPI_Comm_get_parent)(&parent);
  head.is_spawned = parent != MPI_COMM_NULL;
  char library[MPI_MAX_LIBRARY_VERSION_STRING + 1] = "";
  int length = 0;
  PMPI(MPI_Get_library_version)(library, &length);
  std::snprintf(head.library, sizeof head.library, "%.*s", static_cast<int>(std::strcspn(library, "\r\n")), library);
}

// `initialise` calls the MPI library's own function. Starts counting if the program is to be forecast.
template <class Initialise>
int initialise_and_count(Initialise initialise) {
  if (thread_state.depth || !open_record_file()) return initialise();
  ++thread_state.depth;
  const int result = initialise();
  if (result == MPI_SUCCESS && nearfield::is_built_for_the_library()) {
    record_identity(file_header());
    file_header().node_ranks = find_ranks_on_node(file_header().host);
    begin_counting();
    measure_layer_overhead();
  }
  --thread_state.depth;
  return result;
}

}  // namespace

// Defines a wrapper, and a function `next_...` that returns the definition of the same name in the next library.
#define ENTRY(symbol, id, parameters)                                                              \
  extern "C" __attribute__((visibility("default"))) int id parameters asm(symbol);                 \
  static int(*next_##id()) parameters {                                                            \
    return reinterpret_cast<int(*) parameters>(nearfield::find_once(                               \
        [] { return nearfield::next_or_abort(symbol, symbol[0] == 'P' ? symbol : "P" symbol); })); \
  }                                                                                                \
  extern "C" int id parameters

#define STARTS(symbol, id, parameters, arguments)                       \
  ENTRY(symbol, id, parameters) {                                       \
    return initialise_and_count([&] { return next_##id() arguments; }); \
  }

STARTS("MPI_Init", init, (int* argc, char*** argv), (argc, argv))
STARTS("PMPI_Init", init_p, (int* argc, char*** argv), (argc, argv))
STARTS("MPI_Init_thread", init_thread, (int* argc, char*** argv, int need, int* got), (argc, argv, need, got))
STARTS("PMPI_Init_thread", init_thread_p, (int* argc, char*** argv, int need, int* got), (argc, argv, need, got))

static void finish_counting() {
  if (thread_state.table) count_untimed_polls(poll_state, *thread_state.table, read_ticks());
  end_counting(RunState::finalized);
}
ENTRY("MPI_Finalize", finalize, ()) {
  finish_counting();
  return next_finalize()();
}
ENTRY("PMPI_Finalize", finalize_p, ()) {
  finish_counting();
  return next_finalize_p()();
}

// Wrappers of MPI_Init and MPI_Finalize. The part of the run that a forecast describes lasts from the end of MPI_Init
// to the start of MPI_Finalize. Programs that start MPI only by MPI_Session_init are not recorded.
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

void record_identity(FileHeader& header) {
  PMPI(MPI_Comm_rank)(MPI_COMM_WORLD, &header.rank);
  PMPI(MPI_Comm_size)(MPI_COMM_WORLD, &header.ranks);
  MPI_Comm parent = MPI_COMM_NULL;
  PMPI(MPI_Comm_get_parent)(&parent);
  header.is_spawned = parent != MPI_COMM_NULL;
  char library[MPI_MAX_LIBRARY_VERSION_STRING + 1] = "";
  int length = 0;
  PMPI(MPI_Get_library_version)(library, &length);
  std::snprintf(header.library, sizeof header.library, "%.*s", static_cast<int>(std::strcspn(library, "\r\n")),
                library);
}

// `initialize` calls the MPI library's own function. Starts counting if a forecast was requested for this program.
template <class Initialize>
int initialize_and_count(Initialize initialize) {
  if (thread_state.depth || !create_record_file()) return initialize();
  ++thread_state.depth;
  const int result = initialize();
  if (result == MPI_SUCCESS && nearfield::is_built_for_loaded_mpi()) {
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
#define DEFINE_WRAPPER(symbol, id, parameters)                                                          \
  extern "C" __attribute__((visibility("default"))) int id parameters asm(symbol);                      \
  static int(*next_##id()) parameters {                                                                 \
    return reinterpret_cast<int(*) parameters>(nearfield::find_once(                                    \
        [] { return nearfield::find_next_or_abort(symbol, symbol[0] == 'P' ? symbol : "P" symbol); })); \
  }                                                                                                     \
  extern "C" int id parameters

#define WRAP_INIT(symbol, id, parameters, arguments)                    \
  DEFINE_WRAPPER(symbol, id, parameters) {                              \
    return initialize_and_count([&] { return next_##id() arguments; }); \
  }

WRAP_INIT("MPI_Init", init, (int* argc, char*** argv), (argc, argv))
WRAP_INIT("PMPI_Init", init_p, (int* argc, char*** argv), (argc, argv))
WRAP_INIT("MPI_Init_thread", init_thread, (int* argc, char*** argv, int required, int* provided),
          (argc, argv, required, provided))
WRAP_INIT("PMPI_Init_thread", init_thread_p, (int* argc, char*** argv, int required, int* provided),
          (argc, argv, required, provided))

static void finish_counting() {
  if (thread_state.table) count_untimed_polls(poll_state, *thread_state.table, read_ticks());
  end_counting(RunState::finalized);
}
DEFINE_WRAPPER("MPI_Finalize", finalize, ()) {
  finish_counting();
  return next_finalize()();
}
DEFINE_WRAPPER("PMPI_Finalize", finalize_p, ()) {
  finish_counting();
  return next_finalize_p()();
}

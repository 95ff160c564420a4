#include "preload/heap/progress.hpp"

#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>

#include <atomic>

#include "preload/heap/cooperative_copy.hpp"
#include "preload/heap/heap.hpp"
#include "preload/heap/mpi_library.hpp"

namespace nearfield::heap {
namespace {

// The progress callbacks of this process's MPI. Open MPI: opal_progress_register_lp, permanently; it calls back at
// every eighth poll for events, so programs that poll are hardly slowed. MPICH from 4.3 on: MPIX_Async_start, whose
// callbacks must all have ended before MPI_Finalize does, so ours ends when it finds no request for a while; the next
// message registers it again.
struct ProgressApi {
  int (*open_mpi)(int (*)()) = nullptr;
  int (*mpich)(int (*)(void*), void*, int) = nullptr;
  int (*initialized)(int*) = nullptr;
  int (*query_thread)(int*) = nullptr;
  int (*finalize)() = nullptr;
};

constexpr int no_stream = 0x3c000000, not_done = 0, done = 1, thread_multiple = 3;  // MPICH's own numbers
constexpr unsigned patience = 100'000;                                              // calls, some milliseconds

constinit ProgressApi progress_api;
constinit std::atomic<bool> is_looked_up{false}, is_registered{false};
constinit unsigned idle_calls = 0;

template <typename F>
void look_up(F*& function, const char* library, const char* name) {
  function = reinterpret_cast<F*>(find_in_library(library, name));
}

void find_progress_api() {
  look_up(progress_api.open_mpi, "libopen-pal", "opal_progress_register_lp");
  look_up(progress_api.mpich, "libmpi.", "PMPIX_Async_start");
  look_up(progress_api.initialized, "libmpi.", "PMPI_Initialized");
  look_up(progress_api.query_thread, "libmpi.", "PMPI_Query_thread");
  look_up(progress_api.finalize, "libmpi.", "PMPI_Finalize");
}

int poll_for_mpich(void*) {
  idle_calls = poll_copy_requests() ? 0 : idle_calls + 1;
  if (idle_calls < patience) return not_done;
  is_registered.store(false);
  return done;
}

// Returns whether MPI_Finalize is among the callers. It still receives messages whose requests the program has freed,
// but aborts when a callback is registered, and no function of MPICH reports that it has begun.
bool is_finalizing() {
  Dl_info info;
  ElfW(Sym)* function = nullptr;
  auto* begin = reinterpret_cast<char*>(progress_api.finalize);
  if (!begin || !dladdr1(begin, &info, reinterpret_cast<void**>(&function), RTLD_DL_SYMENT) || !function) return false;
  void* callers[64];
  const int count = backtrace(callers, 64);
  for (int i = 0; i < count; ++i)
    if (callers[i] > begin && callers[i] <= begin + function->st_size) return true;
  return false;
}

// MPICH accepts callbacks only between the end of MPI_Init and the beginning of MPI_Finalize, and not from inside a
// call where other threads may wait for the same lock.
bool register_with_mpich() {
  int is_initialized = 0, level = thread_multiple;
  if (progress_api.initialized(&is_initialized) != 0 || !is_initialized) return false;
  if (progress_api.query_thread(&level) != 0 || level == thread_multiple) return false;
  if (is_finalizing()) return false;
  idle_calls = 0;
  return progress_api.mpich(poll_for_mpich, nullptr, no_stream) == 0;
}

}  // namespace

void register_progress_callback() {
  if (is_registered.load(std::memory_order_relaxed)) return;
  if (!is_looked_up.exchange(true)) find_progress_api();
  if (!progress_api.open_mpi && !(progress_api.mpich && progress_api.initialized && progress_api.query_thread)) return;
  if (is_registered.exchange(true)) return;
  const bool registered =
      progress_api.open_mpi ? progress_api.open_mpi(poll_copy_requests) == 0 : register_with_mpich();
  is_registered.store(registered);
  if (registered) announce_cooperation();
}

}  // namespace nearfield::heap

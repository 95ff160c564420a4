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

// The functions by which this process's MPI registers progress callbacks. Open MPI: opal_progress_register_lp registers
// the callback for the rest of the run; Open MPI calls it at every eighth poll for events, so programs that poll are
// hardly slowed. MPICH from 4.3 on: MPIX_Async_start; all its callbacks must have ended before MPI_Finalize ends, so
// the callback ends when it has found no request for some milliseconds, and the next message registers it again.
struct ProgressApi {
  int (*open_mpi_register)(int (*)()) = nullptr;
  int (*mpich_start)(int (*)(void*), void*, int) = nullptr;
  int (*initialized)(int*) = nullptr;
  int (*query_thread)(int*) = nullptr;
  int (*finalize)() = nullptr;
};

// Constants of MPICH's ABI.
constexpr int mpix_stream_null = 0x3c000000, mpix_async_noprogress = 0, mpix_async_done = 1, mpi_thread_multiple = 3;
constexpr unsigned max_polls_without_request = 100'000;  // calls without a request, some milliseconds

constinit ProgressApi progress_api;
constinit std::atomic<bool> is_api_looked_up{false}, is_callback_registered{false};
constinit unsigned num_polls_without_request = 0;

template <typename F>
void look_up_function(F*& function, const char* library, const char* name) {
  function = reinterpret_cast<F*>(find_library_symbol(library, name));
}

void find_progress_api() {
  look_up_function(progress_api.open_mpi_register, "libopen-pal", "opal_progress_register_lp");
  look_up_function(progress_api.mpich_start, "libmpi.", "PMPIX_Async_start");
  look_up_function(progress_api.initialized, "libmpi.", "PMPI_Initialized");
  look_up_function(progress_api.query_thread, "libmpi.", "PMPI_Query_thread");
  look_up_function(progress_api.finalize, "libmpi.", "PMPI_Finalize");
}

// The callback for MPICH. Returns mpix_async_done if it has ended, else mpix_async_noprogress.
int poll_for_mpich(void*) {
  num_polls_without_request = poll_copy_requests() ? 0 : num_polls_without_request + 1;
  if (num_polls_without_request < max_polls_without_request) return mpix_async_noprogress;
  is_callback_registered.store(false);
  return mpix_async_done;
}

// Returns whether MPI_Finalize is on the call stack. MPI_Finalize still receives messages whose requests the program
// has freed, but aborts if a callback is registered then, and no function of MPICH reports that MPI_Finalize has begun.
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

// Registers the callback with MPICH. Returns whether that succeeded. MPICH accepts callbacks only between the end of
// MPI_Init and the start of MPI_Finalize, and not from inside an MPI call if other threads may wait for the same lock.
bool register_with_mpich() {
  int is_initialized = 0, thread_level = mpi_thread_multiple;
  if (progress_api.initialized(&is_initialized) != 0 || !is_initialized) return false;
  if (progress_api.query_thread(&thread_level) != 0 || thread_level == mpi_thread_multiple) return false;
  if (is_finalizing()) return false;
  num_polls_without_request = 0;
  return progress_api.mpich_start(poll_for_mpich, nullptr, mpix_stream_null) == 0;
}

}  // namespace

void register_progress_callback() {
  if (is_callback_registered.load(std::memory_order_relaxed)) return;
  if (!is_api_looked_up.exchange(true)) find_progress_api();
  if (!progress_api.open_mpi_register &&
      !(progress_api.mpich_start && progress_api.initialized && progress_api.query_thread))
    return;
  if (is_callback_registered.exchange(true)) return;
  const bool registered =
      progress_api.open_mpi_register ? progress_api.open_mpi_register(poll_copy_requests) == 0 : register_with_mpich();
  is_callback_registered.store(registered);
  if (registered) announce_cooperation();
}

}  // namespace nearfield::heap

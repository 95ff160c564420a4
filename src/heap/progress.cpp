#include "heap/progress.hpp"

#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>

#include <atomic>

#include "heap/heap.hpp"
#include "heap/help.hpp"
#include "heap/mpi_library.hpp"

namespace nearfield::heap {
namespace {

// The callbacks that the MPI of this process offers. Open MPI: opal_progress_register_lp, for good, which
// calls back at every eighth look for events, so that programs which poll hardly notice. MPICH from 4.3 on:
// MPIX_Async_start, whose callbacks must all have ended before MPI_Finalize does, so ours ends by itself when it finds
// no order for a while; the next message registers it again.
struct Offer {
  int (*open_mpi)(int (*)()) = nullptr;
  int (*mpich)(int (*)(void*), void*, int) = nullptr;
  int (*initialized)(int*) = nullptr;
  int (*query_thread)(int*) = nullptr;
  int (*finalize)() = nullptr;
};

constexpr int no_stream = 0x3c000000, not_done = 0, done = 1, thread_multiple = 3;  // MPICH's own numbers
constexpr unsigned patience = 100'000;                                              // calls, some milliseconds

constinit Offer offer;
constinit std::atomic<bool> is_looked_up{false}, is_registered{false};
constinit unsigned idle_calls = 0;

template <typename F>
void look_up(F*& function, const char* library, const char* name) {
  function = reinterpret_cast<F*>(find_in_library(library, name));
}

void find_offers() {
  look_up(offer.open_mpi, "libopen-pal", "opal_progress_register_lp");
  look_up(offer.mpich, "libmpi.", "PMPIX_Async_start");
  look_up(offer.initialized, "libmpi.", "PMPI_Initialized");
  look_up(offer.query_thread, "libmpi.", "PMPI_Query_thread");
  look_up(offer.finalize, "libmpi.", "PMPI_Finalize");
}

int poll_for_mpich(void*) {
  idle_calls = look_for_orders() ? 0 : idle_calls + 1;
  if (idle_calls < patience) return not_done;
  is_registered.store(false);
  return done;
}

// Returns whether MPI_Finalize is among the callers. It still receives messages whose requests the program has freed,
// but aborts when a callback is registered, and no call of MPICH tells that it has begun.
bool is_finalizing() {
  Dl_info info;
  ElfW(Sym)* function = nullptr;
  auto* begin = reinterpret_cast<char*>(offer.finalize);
  if (!begin || !dladdr1(begin, &info, reinterpret_cast<void**>(&function), RTLD_DL_SYMENT) || !function) return false;
  void* callers[64];
  const int count = backtrace(callers, 64);
  for (int i = 0; i < count; ++i)
    if (callers[i] > begin && callers[i] <= begin + function->st_size) return true;
  return false;
}

// MPICH registers only between the end of MPI_Init and the beginning of MPI_Finalize, and not from inside a call where
// other threads may wait for the same lock.
bool register_with_mpich() {
  int is_initialized = 0, level = thread_multiple;
  if (offer.initialized(&is_initialized) != 0 || !is_initialized) return false;
  if (offer.query_thread(&level) != 0 || level == thread_multiple) return false;
  if (is_finalizing()) return false;
  idle_calls = 0;
  return offer.mpich(poll_for_mpich, nullptr, no_stream) == 0;
}

}  // namespace

void watch_progress() {
  if (is_registered.load(std::memory_order_relaxed)) return;
  if (!is_looked_up.exchange(true)) find_offers();
  if (!offer.open_mpi && !(offer.mpich && offer.initialized && offer.query_thread)) return;
  if (is_registered.exchange(true)) return;
  const bool registered = offer.open_mpi ? offer.open_mpi(look_for_orders) == 0 : register_with_mpich();
  is_registered.store(registered);
  if (registered) offer_help();
}

}  // namespace nearfield::heap

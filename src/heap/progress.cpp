#include "heap/progress.hpp"

#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>

#include <atomic>
#include <cstring>

#include "heap/heap.hpp"
#include "heap/help.hpp"

namespace nearfield::heap {
namespace {

// The callbacks that the MPI of this process offers. Open MPI: opal_progress_register, for good. MPICH from 4.3 on:
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
void look_up(F*& function, void* library, const char* name) {
  function = reinterpret_cast<F*>(dlsym(library, name));
}

struct Names {
  char opal[512], mpi[512];
};

// dl_iterate_phdr's callback. A library that was loaded for another one alone is found only here. It is opened later,
// since the loader is locked now.
int find_libraries(dl_phdr_info* object, std::size_t, void* result) {
  auto* names = static_cast<Names*>(result);
  const char* slash = object->dlpi_name ? std::strrchr(object->dlpi_name, '/') : nullptr;
  if (!slash || std::strlen(object->dlpi_name) >= sizeof names->mpi) return 0;
  if (std::strncmp(slash, "/libopen-pal", 12) == 0) std::strcpy(names->opal, object->dlpi_name);
  if (std::strncmp(slash, "/libmpi.", 8) == 0) std::strcpy(names->mpi, object->dlpi_name);
  return 0;
}

void find_offers() {
  Names names{};
  dl_iterate_phdr(find_libraries, &names);
  if (void* library = names.opal[0] ? dlopen(names.opal, RTLD_LAZY | RTLD_NOLOAD) : nullptr)
    look_up(offer.open_mpi, library, "opal_progress_register");
  if (void* library = names.mpi[0] ? dlopen(names.mpi, RTLD_LAZY | RTLD_NOLOAD) : nullptr) {
    look_up(offer.mpich, library, "PMPIX_Async_start");
    look_up(offer.initialized, library, "PMPI_Initialized");
    look_up(offer.query_thread, library, "PMPI_Query_thread");
    look_up(offer.finalize, library, "PMPI_Finalize");
  }
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

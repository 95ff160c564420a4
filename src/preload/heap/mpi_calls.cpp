// Intercepts MPI calls and passes them on to the MPI.
//
// MPI_Win_*: records address and length of windows, the memory that a program exposes to one-sided calls. MPI forbids a
// program to write to a message in flight, so pages inside a message may be shared even if the process has several
// threads. Other ranks may read a window at any time, also while threads of the program write to it, so in a process
// with several threads the pages of a window stay private (sharing.hpp).
//
// MPI_Init: the heap is opened when MPI has been initialized, so that programs without MPI are not affected, and the
// MPI library's own memory stays outside of the heap. If a job has a single rank, no other process can share its memory
// and the heap stays closed, even if the rank spawns others later. A process that only sends never executes the copy
// path that registers the progress callback (vm_calls.cpp), so the callback is registered here as well.
//
// Arguments are passed on as machine words, so that one definition serves every MPI, whatever types its handles have.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "base/export.h"
#include "preload/heap/heap.hpp"
#include "preload/heap/mpi_library.hpp"
#include "preload/heap/progress.hpp"
#include "preload/heap/sharing.hpp"
#include "preload/heap/site_rules.hpp"
#include "preload/heap/start.hpp"

namespace nearfield::heap {
namespace {

using MachineWord = std::intptr_t;

void record_rma_window(const void* from, MachineWord bytes) {
  if (!from || bytes <= 0) return;
  lock_heap();
  add_rma_window(from, static_cast<std::size_t>(bytes));
  unlock_heap();
}

template <typename... MachineWords>
int call_function(void* function, MachineWords... words) {
  return reinterpret_cast<int (*)(MachineWords...)>(function)(words...);
}

// Returns the next definition of a function that every MPI has; aborts if there is none.
void* require_next(const char* name) {
  if (void* function = next_mpi_function(name)) return function;
  std::fprintf(stderr, "nearfield: %s of this program's MPI is in no library libmpi; run it without the heap\n", name);
  std::abort();
}

template <typename... MachineWords>
int call_next(const char* name, MachineWords... words) {
  return call_function(require_next(name), words...);
}

// Calls the function `large`, whose counts are MPI_Count. Since this library defines it, a program may assume that the
// MPI has it. If the MPI has only `name`, one argument of which is an int, calls `name`, which has the same effect.
template <typename... MachineWords>
int call_next_large(const char* name, const char* large, MachineWords... words) {
  void* function = next_mpi_function(large);
  return call_function(function ? function : require_next(name), words...);
}

int open_heap_after_init(int error) {
  if (error != 0) return error;
  const int ranks = world_size();
  record_num_ranks(ranks);
  if (ranks == 1) {
    keep_heap_closed("there is only one rank");
    return error;
  }
  open_heap_if_enabled();
  if (!is_off_for_user() && !reason_site_closed_heap()) register_progress_callback();
  return error;
}

int record_allocated_window(int error, void** base, MachineWord bytes) {
  if (error == 0) record_rma_window(*base, bytes);
  return error;
}

}  // namespace
}  // namespace nearfield::heap

using namespace nearfield::heap;

#define NEARFIELD_WIN_CREATE(prefix)                                                                            \
  NEARFIELD_EXPORT int prefix##_Win_create(void* base, MachineWord bytes, MachineWord unit, MachineWord info,   \
                                           MachineWord comm, void* win) {                                       \
    record_rma_window(base, bytes);                                                                             \
    return call_next(#prefix "_Win_create", base, bytes, unit, info, comm, win);                                \
  }                                                                                                             \
  NEARFIELD_EXPORT int prefix##_Win_create_c(void* base, MachineWord bytes, MachineWord unit, MachineWord info, \
                                             MachineWord comm, void* win) {                                     \
    record_rma_window(base, bytes);                                                                             \
    return call_next_large(#prefix "_Win_create", #prefix "_Win_create_c", base, bytes, unit, info, comm, win); \
  }
#define NEARFIELD_WIN_ALLOCATE(prefix)                                                                                 \
  NEARFIELD_EXPORT int prefix##_Win_allocate(MachineWord bytes, MachineWord unit, MachineWord info, MachineWord comm,  \
                                             void** base, void* win) {                                                 \
    return record_allocated_window(call_next(#prefix "_Win_allocate", bytes, unit, info, comm, base, win), base,       \
                                   bytes);                                                                             \
  }                                                                                                                    \
  NEARFIELD_EXPORT int prefix##_Win_allocate_c(MachineWord bytes, MachineWord unit, MachineWord info,                  \
                                               MachineWord comm, void** base, void* win) {                             \
    return record_allocated_window(                                                                                    \
        call_next_large(#prefix "_Win_allocate", #prefix "_Win_allocate_c", bytes, unit, info, comm, base, win), base, \
        bytes);                                                                                                        \
  }
#define NEARFIELD_WIN_ATTACH(prefix)                                                         \
  NEARFIELD_EXPORT int prefix##_Win_attach(MachineWord win, void* base, MachineWord bytes) { \
    record_rma_window(base, bytes);                                                          \
    return call_next(#prefix "_Win_attach", win, base, bytes);                               \
  }
#define NEARFIELD_INIT(prefix)                                                                              \
  NEARFIELD_EXPORT int prefix##_Init(void* argc, void* argv) {                                              \
    prepare_for_mpi();                                                                                      \
    print_site_message();                                                                                   \
    return open_heap_after_init(call_next(#prefix "_Init", argc, argv));                                    \
  }                                                                                                         \
  NEARFIELD_EXPORT int prefix##_Init_thread(void* argc, void* argv, MachineWord required, void* provided) { \
    prepare_for_mpi();                                                                                      \
    print_site_message();                                                                                   \
    return open_heap_after_init(call_next(#prefix "_Init_thread", argc, argv, required, provided));         \
  }
#define NEARFIELD_MPI_CALLS(prefix) \
  NEARFIELD_INIT(prefix) NEARFIELD_WIN_CREATE(prefix) NEARFIELD_WIN_ALLOCATE(prefix) NEARFIELD_WIN_ATTACH(prefix)

NEARFIELD_MPI_CALLS(MPI)
NEARFIELD_MPI_CALLS(PMPI)

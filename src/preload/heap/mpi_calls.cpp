// Intercepts MPI calls and passes them on to the MPI.
//
// MPI_Win_*: records address and length of windows, the memory that a program exposes to one-sided calls. Other ranks
// may read a window at any time, also while threads of the program write to it, so the rule for messages does not
// apply: in a process with threads the pages of a window stay private (sharing.hpp).
//
// MPI_Init: the heap is opened when MPI has been initialized, so that programs without MPI are not affected, and the
// MPI's own memory stays outside of the heap. If a job has a single rank, there is nobody to share memory with and the
// heap stays closed, even if the rank spawns others later. A process that only sends makes no copies, so
// register_progress_callback() is called here, too.
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

using Word = std::intptr_t;

void note(const void* from, Word bytes) {
  if (!from || bytes <= 0) return;
  lock_heap();
  add_window(from, static_cast<std::size_t>(bytes));
  unlock_heap();
}

template <typename... Words>
int call(void* function, Words... words) {
  return reinterpret_cast<int (*)(Words...)>(function)(words...);
}

// Returns the next definition of a function that every MPI has; aborts if there is none.
void* require_next(const char* name) {
  if (void* function = next_mpi_function(name)) return function;
  std::fprintf(stderr, "nearfield: %s of this program's MPI is in no library libmpi; run it without the heap\n", name);
  std::abort();
}

template <typename... Words>
int call_next(const char* name, Words... words) {
  return call(require_next(name), words...);
}

// Calls the function `large`, whose counts are MPI_Count. Since this library defines it, a program may assume that the
// MPI has it. If the MPI has only `name`, which takes an int in place of one argument, calls `name`, to the same
// effect.
template <typename... Words>
int call_next_large(const char* name, const char* large, Words... words) {
  void* function = next_mpi_function(large);
  return call(function ? function : require_next(name), words...);
}

int end_init(int error) {
  if (error != 0) return error;
  const int ranks = world_size();
  note_ranks(ranks);
  if (ranks == 1) {
    stay_closed("there is only one rank");
    return error;
  }
  open_when_initialized();
  if (!is_off_for_user() && !site_reason()) register_progress_callback();
  return error;
}

int end_allocate(int error, void** base, Word bytes) {
  if (error == 0) note(*base, bytes);
  return error;
}

}  // namespace
}  // namespace nearfield::heap

using namespace nearfield::heap;

#define NEARFIELD_WIN_CREATE(prefix)                                                                               \
  NEARFIELD_EXPORT int prefix##_Win_create(void* base, Word bytes, Word unit, Word info, Word comm, void* win) {   \
    note(base, bytes);                                                                                             \
    return call_next(#prefix "_Win_create", base, bytes, unit, info, comm, win);                                   \
  }                                                                                                                \
  NEARFIELD_EXPORT int prefix##_Win_create_c(void* base, Word bytes, Word unit, Word info, Word comm, void* win) { \
    note(base, bytes);                                                                                             \
    return call_next_large(#prefix "_Win_create", #prefix "_Win_create_c", base, bytes, unit, info, comm, win);    \
  }
#define NEARFIELD_WIN_ALLOCATE(prefix)                                                                                 \
  NEARFIELD_EXPORT int prefix##_Win_allocate(Word bytes, Word unit, Word info, Word comm, void** base, void* win) {    \
    return end_allocate(call_next(#prefix "_Win_allocate", bytes, unit, info, comm, base, win), base, bytes);          \
  }                                                                                                                    \
  NEARFIELD_EXPORT int prefix##_Win_allocate_c(Word bytes, Word unit, Word info, Word comm, void** base, void* win) {  \
    return end_allocate(                                                                                               \
        call_next_large(#prefix "_Win_allocate", #prefix "_Win_allocate_c", bytes, unit, info, comm, base, win), base, \
        bytes);                                                                                                        \
  }
#define NEARFIELD_WIN_ATTACH(prefix)                                           \
  NEARFIELD_EXPORT int prefix##_Win_attach(Word win, void* base, Word bytes) { \
    note(base, bytes);                                                         \
    return call_next(#prefix "_Win_attach", win, base, bytes);                 \
  }
#define NEARFIELD_INIT(prefix)                                                                       \
  NEARFIELD_EXPORT int prefix##_Init(void* argc, void* argv) {                                       \
    prepare_for_mpi();                                                                               \
    report_site();                                                                                   \
    return end_init(call_next(#prefix "_Init", argc, argv));                                         \
  }                                                                                                  \
  NEARFIELD_EXPORT int prefix##_Init_thread(void* argc, void* argv, Word required, void* provided) { \
    prepare_for_mpi();                                                                               \
    report_site();                                                                                   \
    return end_init(call_next(#prefix "_Init_thread", argc, argv, required, provided));              \
  }
#define NEARFIELD_MPI_CALLS(prefix) \
  NEARFIELD_INIT(prefix) NEARFIELD_WIN_CREATE(prefix) NEARFIELD_WIN_ALLOCATE(prefix) NEARFIELD_WIN_ATTACH(prefix)

NEARFIELD_MPI_CALLS(MPI)
NEARFIELD_MPI_CALLS(PMPI)

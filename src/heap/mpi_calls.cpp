// The calls of MPI that this library has to know of. The MPI's own functions are called as ever.
//
// Windows: memory that a program makes available to one-sided calls. Others may read it at any time, also while threads
// of the program write to it, so that the rule for messages does not hold there: in a process with threads such pages
// stay private (sharing.hpp). Only the memory's address and length are noted.
//
// MPI_Init: a process that only sends copies nothing itself, so it never comes to watch_progress() by a message.
//
// The arguments are passed on as the machine words that they are, so that one definition serves every MPI, whose
// handles are of different types.
#include <dlfcn.h>

#include <cstddef>
#include <cstdint>

#include "base/export.h"
#include "heap/heap.hpp"
#include "heap/progress.hpp"
#include "heap/sharing.hpp"

namespace nearfield::heap {
namespace {

using Word = std::intptr_t;

void note(const void* from, Word bytes) {
  if (!from || bytes <= 0) return;
  lock_heap();
  note_window(from, static_cast<std::size_t>(bytes));
  unlock_heap();
}

template <typename... Words>
int call_next(const char* name, Words... words) {
  return reinterpret_cast<int (*)(Words...)>(dlsym(RTLD_NEXT, name))(words...);
}

int end_init(int error) {
  if (error == 0) watch_progress();
  return error;
}

}  // namespace
}  // namespace nearfield::heap

using namespace nearfield::heap;

#define NEARFIELD_WIN_CREATE(name)                                                                \
  NEARFIELD_EXPORT int name(void* base, Word bytes, Word unit, Word info, Word comm, void* win) { \
    note(base, bytes);                                                                            \
    return call_next(#name, base, bytes, unit, info, comm, win);                                  \
  }
#define NEARFIELD_WIN_ALLOCATE(name)                                                               \
  NEARFIELD_EXPORT int name(Word bytes, Word unit, Word info, Word comm, void** base, void* win) { \
    const int error = call_next(#name, bytes, unit, info, comm, base, win);                        \
    if (error == 0) note(*base, bytes);                                                            \
    return error;                                                                                  \
  }
#define NEARFIELD_WIN_ATTACH(name)                              \
  NEARFIELD_EXPORT int name(Word win, void* base, Word bytes) { \
    note(base, bytes);                                          \
    return call_next(#name, win, base, bytes);                  \
  }

#define NEARFIELD_INIT(name) \
  NEARFIELD_EXPORT int name(void* argc, void* argv) { return end_init(call_next(#name, argc, argv)); }
#define NEARFIELD_INIT_THREAD(name)                                                  \
  NEARFIELD_EXPORT int name(void* argc, void* argv, Word required, void* provided) { \
    return end_init(call_next(#name, argc, argv, required, provided));               \
  }

NEARFIELD_INIT(MPI_Init)
NEARFIELD_INIT(PMPI_Init)
NEARFIELD_INIT_THREAD(MPI_Init_thread)
NEARFIELD_INIT_THREAD(PMPI_Init_thread)
NEARFIELD_WIN_CREATE(MPI_Win_create)
NEARFIELD_WIN_CREATE(PMPI_Win_create)
NEARFIELD_WIN_CREATE(MPI_Win_create_c)
NEARFIELD_WIN_CREATE(PMPI_Win_create_c)
NEARFIELD_WIN_ALLOCATE(MPI_Win_allocate)
NEARFIELD_WIN_ALLOCATE(PMPI_Win_allocate)
NEARFIELD_WIN_ALLOCATE(MPI_Win_allocate_c)
NEARFIELD_WIN_ALLOCATE(PMPI_Win_allocate_c)
NEARFIELD_WIN_ATTACH(MPI_Win_attach)
NEARFIELD_WIN_ATTACH(PMPI_Win_attach)

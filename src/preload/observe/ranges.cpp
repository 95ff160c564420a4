// Hooks of the C library's functions that access ranges of memory. `nearfield cc` links the program's calls of memcpy
// to __wrap_memcpy, so calls from other libraries, such as MPI, are not recorded.
#include <string.h>

#include "preload/observe/hook.hpp"

using namespace nearfield;
using namespace nearfield::observe;

namespace {

void record_copy_ranges(const void* code, const void* to, const void* from, size_t bytes) {
  record_range(code, stream::load_range, from, bytes);
  record_range(code, stream::store_range, to, bytes);
}

}  // namespace

#define RANGES(prefix)                                                   \
  HOOK void* prefix##memcpy(void* to, const void* from, size_t bytes) {  \
    record_copy_ranges(CODE, to, from, bytes);                           \
    return memcpy(to, from, bytes);                                      \
  }                                                                      \
  HOOK void* prefix##memmove(void* to, const void* from, size_t bytes) { \
    record_copy_ranges(CODE, to, from, bytes);                           \
    return memmove(to, from, bytes);                                     \
  }                                                                      \
  HOOK void* prefix##memset(void* to, int value, size_t bytes) {         \
    record_range(CODE, stream::store_range, to, bytes);                  \
    return memset(to, value, bytes);                                     \
  }

RANGES(__wrap_)
RANGES(__tsan_)  // called by code that clang has compiled

HOOK int __wrap_memcmp(const void* one, const void* other, size_t bytes) {
  record_range(CODE, stream::load_range, one, bytes);
  record_range(CODE, stream::load_range, other, bytes);
  return memcmp(one, other, bytes);
}

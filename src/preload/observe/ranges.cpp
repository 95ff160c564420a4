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

#define DEFINE_RANGE_HOOKS(prefix)                                       \
  HOOK void* prefix##memcpy(void* to, const void* from, size_t bytes) {  \
    record_copy_ranges(CALL_SITE, to, from, bytes);                      \
    return memcpy(to, from, bytes);                                      \
  }                                                                      \
  HOOK void* prefix##memmove(void* to, const void* from, size_t bytes) { \
    record_copy_ranges(CALL_SITE, to, from, bytes);                      \
    return memmove(to, from, bytes);                                     \
  }                                                                      \
  HOOK void* prefix##memset(void* to, int value, size_t bytes) {         \
    record_range(CALL_SITE, stream::store_range, to, bytes);             \
    return memset(to, value, bytes);                                     \
  }

DEFINE_RANGE_HOOKS(__wrap_)
DEFINE_RANGE_HOOKS(__tsan_)  // called by code that clang has compiled

HOOK int __wrap_memcmp(const void* first, const void* second, size_t bytes) {
  record_range(CALL_SITE, stream::load_range, first, bytes);
  record_range(CALL_SITE, stream::load_range, second, bytes);
  return memcmp(first, second, bytes);
}

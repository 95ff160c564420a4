// The hooks that compilers insert before loads and stores with -fsanitize=thread, under the names that compilers use.
// The thread sanitizer's own library is not linked; the hooks record accesses, with their return address as the access
// site.
#include "preload/observe/hook.hpp"

using namespace nearfield;
using namespace nearfield::observe;

#define HOOKS_OF(bytes)                                                                                         \
  HOOK void __tsan_read##bytes(void* address) { record_access(CODE, stream::load##bytes, address); }            \
  HOOK void __tsan_write##bytes(void* address) { record_access(CODE, stream::store##bytes, address); }          \
  HOOK void __tsan_volatile_read##bytes(void* address) { record_access(CODE, stream::load##bytes, address); }   \
  HOOK void __tsan_volatile_write##bytes(void* address) { record_access(CODE, stream::store##bytes, address); } \
  HOOK void __tsan_read_write##bytes(void* address) {                                                           \
    record_access(CODE, stream::load##bytes, address);                                                          \
    record_access(CODE, stream::store##bytes, address);                                                         \
  }

#define UNALIGNED_HOOKS_OF(bytes)                                                                                \
  HOOK void __tsan_unaligned_read##bytes(void* address) { record_access(CODE, stream::load##bytes, address); }   \
  HOOK void __tsan_unaligned_write##bytes(void* address) { record_access(CODE, stream::store##bytes, address); } \
  HOOK void __tsan_unaligned_volatile_read##bytes(void* address) {                                               \
    record_access(CODE, stream::load##bytes, address);                                                           \
  }                                                                                                              \
  HOOK void __tsan_unaligned_volatile_write##bytes(void* address) {                                              \
    record_access(CODE, stream::store##bytes, address);                                                          \
  }                                                                                                              \
  HOOK void __tsan_unaligned_read_write##bytes(void* address) {                                                  \
    record_access(CODE, stream::load##bytes, address);                                                           \
    record_access(CODE, stream::store##bytes, address);                                                          \
  }

HOOKS_OF(1)
HOOKS_OF(2)
HOOKS_OF(4)
HOOKS_OF(8)
HOOKS_OF(16)
UNALIGNED_HOOKS_OF(2)
UNALIGNED_HOOKS_OF(4)
UNALIGNED_HOOKS_OF(8)
UNALIGNED_HOOKS_OF(16)

HOOK void __tsan_read_range(void* address, unsigned long bytes) {
  record_range(CODE, stream::load_range, address, bytes);
}
HOOK void __tsan_write_range(void* address, unsigned long bytes) {
  record_range(CODE, stream::store_range, address, bytes);
}
HOOK void __tsan_vptr_read(void** address) { record_access(CODE, stream::load8, address); }
HOOK void __tsan_vptr_update(void** address, void*) { record_access(CODE, stream::store8, address); }

// Calls of every function arrive here, among them those of the function that --region names.
HOOK void __tsan_func_entry(void* caller) { function_begins(CODE, caller); }
HOOK void __tsan_func_exit() { function_ends(CODE); }
HOOK void __tsan_init() {}
HOOK void __tsan_ignore_thread_begin() {}
HOOK void __tsan_ignore_thread_end() {}

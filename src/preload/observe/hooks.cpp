// The hooks that compilers insert before loads and stores with -fsanitize=thread, under the names that compilers use.
// The thread sanitizer's own library is not linked; the hooks record accesses, with their return address as the access
// site.
#include "preload/observe/hook.hpp"

using namespace nearfield;
using namespace nearfield::observe;

#define DEFINE_HOOKS(bytes)                                                                                          \
  HOOK void __tsan_read##bytes(void* address) { record_access(CALL_SITE, stream::load##bytes, address); }            \
  HOOK void __tsan_write##bytes(void* address) { record_access(CALL_SITE, stream::store##bytes, address); }          \
  HOOK void __tsan_volatile_read##bytes(void* address) { record_access(CALL_SITE, stream::load##bytes, address); }   \
  HOOK void __tsan_volatile_write##bytes(void* address) { record_access(CALL_SITE, stream::store##bytes, address); } \
  HOOK void __tsan_read_write##bytes(void* address) {                                                                \
    record_access(CALL_SITE, stream::load##bytes, address);                                                          \
    record_access(CALL_SITE, stream::store##bytes, address);                                                         \
  }

#define DEFINE_UNALIGNED_HOOKS(bytes)                                                                                 \
  HOOK void __tsan_unaligned_read##bytes(void* address) { record_access(CALL_SITE, stream::load##bytes, address); }   \
  HOOK void __tsan_unaligned_write##bytes(void* address) { record_access(CALL_SITE, stream::store##bytes, address); } \
  HOOK void __tsan_unaligned_volatile_read##bytes(void* address) {                                                    \
    record_access(CALL_SITE, stream::load##bytes, address);                                                           \
  }                                                                                                                   \
  HOOK void __tsan_unaligned_volatile_write##bytes(void* address) {                                                   \
    record_access(CALL_SITE, stream::store##bytes, address);                                                          \
  }                                                                                                                   \
  HOOK void __tsan_unaligned_read_write##bytes(void* address) {                                                       \
    record_access(CALL_SITE, stream::load##bytes, address);                                                           \
    record_access(CALL_SITE, stream::store##bytes, address);                                                          \
  }

DEFINE_HOOKS(1)
DEFINE_HOOKS(2)
DEFINE_HOOKS(4)
DEFINE_HOOKS(8)
DEFINE_HOOKS(16)
DEFINE_UNALIGNED_HOOKS(2)
DEFINE_UNALIGNED_HOOKS(4)
DEFINE_UNALIGNED_HOOKS(8)
DEFINE_UNALIGNED_HOOKS(16)

HOOK void __tsan_read_range(void* address, unsigned long bytes) {
  record_range(CALL_SITE, stream::load_range, address, bytes);
}
HOOK void __tsan_write_range(void* address, unsigned long bytes) {
  record_range(CALL_SITE, stream::store_range, address, bytes);
}
HOOK void __tsan_vptr_read(void** address) { record_access(CALL_SITE, stream::load8, address); }
HOOK void __tsan_vptr_update(void** address, void*) { record_access(CALL_SITE, stream::store8, address); }

// Called on entry to every function, including the function that --region names.
HOOK void __tsan_func_entry(void* caller) { record_function_entry(CALL_SITE, caller); }
HOOK void __tsan_func_exit() { record_function_exit(CALL_SITE); }
HOOK void __tsan_init() {}
HOOK void __tsan_ignore_thread_begin() {}
HOOK void __tsan_ignore_thread_end() {}

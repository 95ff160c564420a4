// Atomic operations of programs that are compiled with hooks. The compiler replaces them by calls into the thread
// sanitizer's library, so this library must perform them. They are sequentially consistent, even if the program
// specifies a weaker memory order, and are recorded as a load, a store, or both.
#include <cstdint>

#include "preload/observe/hook.hpp"

using namespace nearfield;
using namespace nearfield::observe;

#define DEFINE_ATOMIC_FETCH(bits, bytes, type, operation)                                      \
  HOOK type __tsan_atomic##bits##_fetch_##operation(volatile type* address, type value, int) { \
    record_access(CALL_SITE, stream::load##bytes, address);                                    \
    record_access(CALL_SITE, stream::store##bytes, address);                                   \
    return __atomic_fetch_##operation(address, value, __ATOMIC_SEQ_CST);                       \
  }

#define DEFINE_ATOMICS(bits, bytes, type)                                                                              \
  HOOK type __tsan_atomic##bits##_load(const volatile type* address, int) {                                            \
    record_access(CALL_SITE, stream::load##bytes, address);                                                            \
    return __atomic_load_n(address, __ATOMIC_SEQ_CST);                                                                 \
  }                                                                                                                    \
  HOOK void __tsan_atomic##bits##_store(volatile type* address, type value, int) {                                     \
    record_access(CALL_SITE, stream::store##bytes, address);                                                           \
    __atomic_store_n(address, value, __ATOMIC_SEQ_CST);                                                                \
  }                                                                                                                    \
  HOOK type __tsan_atomic##bits##_exchange(volatile type* address, type value, int) {                                  \
    record_access(CALL_SITE, stream::load##bytes, address);                                                            \
    record_access(CALL_SITE, stream::store##bytes, address);                                                           \
    return __atomic_exchange_n(address, value, __ATOMIC_SEQ_CST);                                                      \
  }                                                                                                                    \
  DEFINE_ATOMIC_FETCH(bits, bytes, type, add)                                                                          \
  DEFINE_ATOMIC_FETCH(bits, bytes, type, sub)                                                                          \
  DEFINE_ATOMIC_FETCH(bits, bytes, type, and)                                                                          \
  DEFINE_ATOMIC_FETCH(bits, bytes, type, or)                                                                           \
  DEFINE_ATOMIC_FETCH(bits, bytes, type, xor)                                                                          \
  DEFINE_ATOMIC_FETCH(bits, bytes, type, nand)                                                                         \
  HOOK int __tsan_atomic##bits##_compare_exchange_strong(volatile type* address, type* expected, type value, int,      \
                                                         int) {                                                        \
    record_access(CALL_SITE, stream::load##bytes, address);                                                            \
    const bool is_exchanged =                                                                                          \
        __atomic_compare_exchange_n(address, expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);              \
    if (is_exchanged) record_access(CALL_SITE, stream::store##bytes, address);                                         \
    return is_exchanged;                                                                                               \
  }                                                                                                                    \
  HOOK int __tsan_atomic##bits##_compare_exchange_weak(volatile type* address, type* expected, type value, int, int) { \
    record_access(CALL_SITE, stream::load##bytes, address);                                                            \
    const bool is_exchanged =                                                                                          \
        __atomic_compare_exchange_n(address, expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);              \
    if (is_exchanged) record_access(CALL_SITE, stream::store##bytes, address);                                         \
    return is_exchanged;                                                                                               \
  }                                                                                                                    \
  HOOK type __tsan_atomic##bits##_compare_exchange_val(volatile type* address, type expected, type value, int, int) {  \
    record_access(CALL_SITE, stream::load##bytes, address);                                                            \
    if (__atomic_compare_exchange_n(address, &expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))             \
      record_access(CALL_SITE, stream::store##bytes, address);                                                         \
    return expected;                                                                                                   \
  }

DEFINE_ATOMICS(8, 1, std::uint8_t)
DEFINE_ATOMICS(16, 2, std::uint16_t)
DEFINE_ATOMICS(32, 4, std::uint32_t)
DEFINE_ATOMICS(64, 8, std::uint64_t)

HOOK void __tsan_atomic_thread_fence(int) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
HOOK void __tsan_atomic_signal_fence(int) { __atomic_signal_fence(__ATOMIC_SEQ_CST); }

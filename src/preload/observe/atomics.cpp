// Atomic operations of programs that are compiled with hooks. The compiler replaces them by calls into the thread
// sanitizer's library, so this library must perform them. They are sequentially consistent, whatever order the program
// specifies, and are recorded as a load, a store, or both.
#include <cstdint>

#include "preload/observe/hook.hpp"

using namespace nearfield;
using namespace nearfield::observe;

#define FETCH(bits, bytes, type, what)                                               \
  HOOK type __tsan_atomic##bits##_fetch_##what(volatile type* at, type value, int) { \
    record_access(CODE, stream::load##bytes, at);                                    \
    record_access(CODE, stream::store##bytes, at);                                   \
    return __atomic_fetch_##what(at, value, __ATOMIC_SEQ_CST);                       \
  }

#define ATOMICS(bits, bytes, type)                                                                                  \
  HOOK type __tsan_atomic##bits##_load(const volatile type* at, int) {                                              \
    record_access(CODE, stream::load##bytes, at);                                                                   \
    return __atomic_load_n(at, __ATOMIC_SEQ_CST);                                                                   \
  }                                                                                                                 \
  HOOK void __tsan_atomic##bits##_store(volatile type* at, type value, int) {                                       \
    record_access(CODE, stream::store##bytes, at);                                                                  \
    __atomic_store_n(at, value, __ATOMIC_SEQ_CST);                                                                  \
  }                                                                                                                 \
  HOOK type __tsan_atomic##bits##_exchange(volatile type* at, type value, int) {                                    \
    record_access(CODE, stream::load##bytes, at);                                                                   \
    record_access(CODE, stream::store##bytes, at);                                                                  \
    return __atomic_exchange_n(at, value, __ATOMIC_SEQ_CST);                                                        \
  }                                                                                                                 \
  FETCH(bits, bytes, type, add)                                                                                     \
  FETCH(bits, bytes, type, sub)                                                                                     \
  FETCH(bits, bytes, type, and)                                                                                     \
  FETCH(bits, bytes, type, or)                                                                                      \
  FETCH(bits, bytes, type, xor)                                                                                     \
  FETCH(bits, bytes, type, nand)                                                                                    \
  HOOK int __tsan_atomic##bits##_compare_exchange_strong(volatile type* at, type* expected, type value, int, int) { \
    record_access(CODE, stream::load##bytes, at);                                                                   \
    const bool done = __atomic_compare_exchange_n(at, expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);  \
    if (done) record_access(CODE, stream::store##bytes, at);                                                        \
    return done;                                                                                                    \
  }                                                                                                                 \
  HOOK int __tsan_atomic##bits##_compare_exchange_weak(volatile type* at, type* expected, type value, int, int) {   \
    record_access(CODE, stream::load##bytes, at);                                                                   \
    const bool done = __atomic_compare_exchange_n(at, expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);  \
    if (done) record_access(CODE, stream::store##bytes, at);                                                        \
    return done;                                                                                                    \
  }                                                                                                                 \
  HOOK type __tsan_atomic##bits##_compare_exchange_val(volatile type* at, type expected, type value, int, int) {    \
    record_access(CODE, stream::load##bytes, at);                                                                   \
    if (__atomic_compare_exchange_n(at, &expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))               \
      record_access(CODE, stream::store##bytes, at);                                                                \
    return expected;                                                                                                \
  }

ATOMICS(8, 1, std::uint8_t)
ATOMICS(16, 2, std::uint16_t)
ATOMICS(32, 4, std::uint32_t)
ATOMICS(64, 8, std::uint64_t)

HOOK void __tsan_atomic_thread_fence(int) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
HOOK void __tsan_atomic_signal_fence(int) { __atomic_signal_fence(__ATOMIC_SEQ_CST); }

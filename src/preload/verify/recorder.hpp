// The recorder that the compiler's hooks (src/preload/observe/hook.hpp) call in programs that `rewrite --verify`
// compares: adds each memory access to the histories of the accessed bytes (accesses.h).
#pragma once

#include "preload/verify/accesses.h"
#include "trace/stream/format.hpp"

namespace nearfield::observe {

inline void record_range(const void*, stream::SiteKind kind, const volatile void* address, unsigned long bytes) {
  const void* data = const_cast<const void*>(address);
  stream::is_store(kind) ? nf_add_write(data, bytes) : nf_add_read(data, bytes);
}

inline void record_access(const void* code, stream::SiteKind kind, const volatile void* address) {
  record_range(code, kind, address, stream::access_bytes_of(kind));
}

inline void record_function_entry(const void*, const void*) {}
inline void record_function_exit(const void*) {}

}  // namespace nearfield::observe

// The recorder of an observed process. It gets accesses from hooks and events from the profiling layer (interface.h),
// and writes the stream. NEARFIELD_OBSERVE names the folder of the streams; without it hooks return at once.
//
// The thread that makes the first access, or calls MPI_Init, is recorded. Accesses of other threads cannot be ordered
// relative to it, so they mark the stream as unsupported. Children of fork() are not recorded. Needs no C++ library.
//
// Under Valgrind's tool (requests.h) the tool records the accesses, of programs without hooks, and the hooks do
// nothing.
#pragma once

#include "preload/observe/process_stream.hpp"
#include "preload/observe/requests.h"

namespace nearfield::observe {

using stream::Encoder;
using stream::SiteKind;

// The recorded thread, while accesses are recorded; else nullptr.
__attribute__((visibility("hidden"))) extern void* recorded;

inline bool in_recorded_thread() { return recorded == __builtin_thread_pointer(); }
// Returns whether this thread is recorded. The very first access starts the recording.
bool first_access();
void access_slow(Encoder::Key key, std::uint64_t address);

inline void access(const void* code, SiteKind kind, const volatile void* address) {
  const Encoder::Key key{reinterpret_cast<std::uint64_t>(code), kind};
  const auto at = reinterpret_cast<std::uint64_t>(address);
  if (!in_recorded_thread()) [[unlikely]]
    return access_slow(key, at);
  encoder.access(key, at);
}

// The call sites of the active functions of the recorded thread, outermost first. In very deep recursion the innermost
// ones are missing.
struct Callers {
  static constexpr unsigned max_depth = 4096;
  void* thread = nullptr;
  unsigned depth = 0;
  const void* at[max_depth];
};
__attribute__((visibility("hidden"))) extern Callers callers;

// The function to which recording is restricted, as code addresses.
struct Region : nearfield_region {
  int depth = 0;  // of its recursion
};
extern Region region;
void enter_or_leave(bool enters);

// Called on entry to every function, which was called from `caller`, and on exit from it.
inline void function_begins(const void* code, const void* caller) {
  if (callers.thread == __builtin_thread_pointer()) {
    if (callers.depth < Callers::max_depth) callers.at[callers.depth] = caller;
    ++callers.depth;
  }
  if (reinterpret_cast<std::uint64_t>(code) - region.begin < region.size) [[unlikely]]
    enter_or_leave(true);
}
inline void function_ends(const void* code) {
  // Functions that were entered before recording began are not counted.
  if (callers.thread == __builtin_thread_pointer() && callers.depth > 0) --callers.depth;
  if (reinterpret_cast<std::uint64_t>(code) - region.begin < region.size) [[unlikely]]
    enter_or_leave(false);
}

inline void range(const void* code, SiteKind kind, const volatile void* address, std::uint64_t bytes) {
  if (bytes > 0 && (in_recorded_thread() || first_access()))
    encoder.range({reinterpret_cast<std::uint64_t>(code), kind}, reinterpret_cast<std::uint64_t>(address), bytes);
}

}  // namespace nearfield::observe

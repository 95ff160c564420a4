// The recorder of an observed process. It receives memory accesses from the hooks and events from the profiling layer
// (interface.h), and writes the stream. The environment variable NEARFIELD_OBSERVE names the folder of the streams;
// without the variable, hooks return at once.
//
// One thread is recorded: the first that makes an access or calls MPI_Init. Accesses of other threads cannot be ordered
// relative to those of the recorded thread, so they mark the stream as unsupported. Children of fork() are not
// recorded. The recorder does not need the C++ library.
//
// Under Valgrind's tool (requests.h), the tool records the accesses of programs that have no hooks, and the functions
// of this header do nothing.
#pragma once

#include "preload/observe/process_stream.hpp"
#include "preload/observe/requests.h"

namespace nearfield::observe {

using stream::Encoder;
using stream::SiteKind;

// The thread pointer of the recorded thread while accesses are recorded; nullptr while they are not.
__attribute__((visibility("hidden"))) extern void* recorded_thread_pointer;

inline bool in_recorded_thread() { return recorded_thread_pointer == __builtin_thread_pointer(); }
// Returns whether accesses of this thread are recorded now. The first access in the process starts the recording; an
// access of another thread is remembered, and marks the stream as unsupported.
bool begin_recording_at_first_access();
void record_first_access(Encoder::SiteKey key, std::uint64_t address);

inline void record_access(const void* code, SiteKind kind, const volatile void* address) {
  const Encoder::SiteKey key{reinterpret_cast<std::uint64_t>(code), kind};
  const auto at = reinterpret_cast<std::uint64_t>(address);
  if (!in_recorded_thread()) [[unlikely]]
    return record_first_access(key, at);
  record_in_stream(key, at);
}

// The call stack of the recorded thread: the call sites of its active functions, outermost first. If the recursion is
// deeper than max_depth, the innermost call sites are missing.
struct CallStack {
  static constexpr unsigned max_depth = 4096;
  void* thread = nullptr;
  unsigned depth = 0;
  const void* call_sites[max_depth];
};
__attribute__((visibility("hidden"))) extern CallStack recorded_call_stack;

// The function to which recording is restricted, as a range of code addresses. `size` is 0 if recording is not
// restricted.
struct RecordedRegion : nearfield_region {
  int depth = 0;  // current recursion depth of the function
};
extern RecordedRegion region;
void cross_region_boundary(bool enters);

// Called on entry to each function: `code` is an address in the function, `caller` the call site.
inline void record_function_entry(const void* code, const void* caller) {
  if (recorded_call_stack.thread == __builtin_thread_pointer()) {
    if (recorded_call_stack.depth < CallStack::max_depth)
      recorded_call_stack.call_sites[recorded_call_stack.depth] = caller;
    ++recorded_call_stack.depth;
  }
  if (reinterpret_cast<std::uint64_t>(code) - region.begin < region.size) [[unlikely]]
    cross_region_boundary(true);
}
inline void record_function_exit(const void* code) {
  // Functions that were entered before recording began are not on the stack.
  if (recorded_call_stack.thread == __builtin_thread_pointer() && recorded_call_stack.depth > 0)
    --recorded_call_stack.depth;
  if (reinterpret_cast<std::uint64_t>(code) - region.begin < region.size) [[unlikely]]
    cross_region_boundary(false);
}

inline void record_range(const void* code, SiteKind kind, const volatile void* address, std::uint64_t bytes) {
  if (bytes > 0 && (in_recorded_thread() || begin_recording_at_first_access()))
    encoder.encode_range({reinterpret_cast<std::uint64_t>(code), kind}, reinterpret_cast<std::uint64_t>(address),
                         bytes);
}

}  // namespace nearfield::observe

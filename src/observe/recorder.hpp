// The recorder of an observed process: hooks give it accesses, the profiling layer events (interface.h), and it writes
// the stream. NEARFIELD_OBSERVE names the folder of the streams; without it nothing is recorded and hooks return at once.
//
// The thread that makes the first access, or calls MPI_Init, is the one that is recorded. Accesses of another one cannot
// be put in order with it: the stream says `refused`. A child that fork() makes is not recorded. Needs no C++ library.
//
// Under Valgrind's tool (requests.h) it is the tool that records accesses, of programs without hooks; hooks do nothing.
#pragma once

#include "observe/process_stream.hpp"
#include "observe/requests.h"

namespace nearfield::observe {

using stream::Encoder;
using stream::SiteKind;

// The thread that is recorded, while it is; else nullptr.
__attribute__((visibility("hidden"))) extern void* recorded;

inline bool here() { return recorded == __builtin_thread_pointer(); }
// Returns whether this thread is to be recorded although it is not yet: at its very first access.
bool first_access();
void access_elsewhere(Encoder::Key key, std::uint64_t address);

inline void access(const void* code, SiteKind kind, const volatile void* address) {
  const Encoder::Key key{reinterpret_cast<std::uint64_t>(code), kind};
  const auto at = reinterpret_cast<std::uint64_t>(address);
  if (!here()) [[unlikely]]
    return access_elsewhere(key, at);
  encoder.access(key, at);
}

// Where the functions that run in the recorded thread were called, the outermost first. Of very deep recursion the
// innermost calls are not there.
struct Callers {
  static constexpr unsigned most = 4096;
  void* thread = nullptr;
  unsigned depth = 0;
  const void* at[most];
};
__attribute__((visibility("hidden"))) extern Callers callers;

// The function whose accesses alone are recorded, as addresses of code.
struct Region : nearfield_region {
  int depth = 0;  // of its calls within each other
};
extern Region region;
void enter_or_leave(bool enters);

// Is called at the begin of every function, which was called from `caller`, and at its end.
inline void function_begins(const void* code, const void* caller) {
  if (callers.thread == __builtin_thread_pointer()) {
    if (callers.depth < Callers::most) callers.at[callers.depth] = caller;
    ++callers.depth;
  }
  if (reinterpret_cast<std::uint64_t>(code) - region.begin < region.size) [[unlikely]]
    enter_or_leave(true);
}
inline void function_ends(const void* code) {
  // Those that began before recording did are not there.
  if (callers.thread == __builtin_thread_pointer() && callers.depth > 0) --callers.depth;
  if (reinterpret_cast<std::uint64_t>(code) - region.begin < region.size) [[unlikely]]
    enter_or_leave(false);
}

inline void range(const void* code, SiteKind kind, const volatile void* address, std::uint64_t bytes) {
  if (bytes > 0 && (here() || first_access()))
    encoder.range({reinterpret_cast<std::uint64_t>(code), kind}, reinterpret_cast<std::uint64_t>(address), bytes);
}

}  // namespace nearfield::observe

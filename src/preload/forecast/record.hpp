// Counts MPI calls in the tables of format.hpp. Independent of MPI. A call costs at most two reads of the processor's
// counter and additions to a row of the thread's own table: no lock and no allocation, unless the row is new.
#pragma once

#include <atomic>
#include <cstdint>

#include "preload/forecast/format.hpp"

namespace nearfield::forecast {

// Reads the processor's time-stamp counter without a barrier, since the measured intervals are a hundred times longer
// than the time over which instructions are reordered.
inline std::uint64_t read_ticks() {
#if defined(__x86_64__)
  std::uint32_t low, high;
  asm volatile("rdtsc" : "=a"(low), "=d"(high));
  return std::uint64_t{high} << 32 | low;
#else
  std::uint64_t now;
  asm volatile("mrs %0, cntvct_el0" : "=r"(now));
  return now;
#endif
}

// An MPI function. `name_offset` is the position of the function's name in the file's names; 0 until the first call.
struct MpiFunction {
  const char* name;
  std::atomic<std::uint32_t> name_offset{0};
};

// The kind of one call, the place of its peers, and its messages.
struct CallDescription {
  CallCategory category = CallCategory::other;
  PeerLocation location = PeerLocation::this_node;
  std::uint64_t num_messages = 0, bytes = 0;  // `bytes`: total of all messages
};

struct ThreadState {
  int depth = 0;                       // nesting depth of MPI functions
  bool has_requested_table = false;    // whether find_or_assign_thread_table() was called
  const void* fortran_site = nullptr;  // call site of the Fortran binding
  ThreadTable* table = nullptr;
};
inline thread_local constinit __attribute__((tls_model("initial-exec"))) ThreadState thread_state;
inline std::atomic<bool> is_active = false;

// Creates and maps this process's file in the folder that NEARFIELD_FORECAST names, before MPI_Init. Returns false if
// the variable is not set or the file cannot be created.
bool create_record_file();
FileHeader& file_header();
// Starts counting. The caller must have set the header's fields about this rank.
void begin_counting();
// Sets the overhead of this layer in ticks: that of a timed call, and the mean over repeated polls, most of which are
// not timed.
void set_layer_overhead(double ticks_per_timed_call, double ticks_per_repeated_poll);
// Ends the counting and completes the header. Only the first call has an effect, and none in a forked child.
void end_counting(RunState state);
// Returns the table of this thread; the first call assigns one. Returns null if there are too many threads.
ThreadTable* find_or_assign_thread_table();
// Adds a call to the row of its call site, function and size class, and returns the row.
CallRow& count_call(ThreadTable& table, MpiFunction& function, const void* site, const CallDescription& description,
                    std::uint64_t begin_ticks, std::uint64_t end_ticks, std::uint64_t gap_ticks);

}  // namespace nearfield::forecast

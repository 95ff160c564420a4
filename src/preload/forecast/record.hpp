// Counts calls in the tables of format.hpp. Independent of MPI. A call costs at most two reads of the processor's
// counter and an addition to a row of the thread's own table: no lock and no allocation, unless a row is new.
#pragma once

#include <atomic>
#include <cstdint>

#include "preload/forecast/format.hpp"

namespace nearfield::forecast {

// Reads the processor's counter without ordering, because the measured intervals are a hundred times as long.
inline std::uint64_t ticks() {
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

// An MPI function; its number is the position of its name in the file's names, and 0 until it is first called.
struct Function {
  const char* name;
  std::atomic<std::uint32_t> number{0};
};

// The effect of one call.
struct Did {
  Category category = Category::other;
  Place place = Place::node;
  std::uint64_t messages = 0, bytes = 0;  // of all messages together
};

struct Thread {
  int depth = 0;                       // of nested MPI functions
  bool has_requested_table = false;    // for a table
  const void* fortran_site = nullptr;  // where Fortran's binding was called
  Table* table = nullptr;
};
inline thread_local constinit __attribute__((tls_model("initial-exec"))) Thread thread;
inline std::atomic<bool> is_active = false;

// Opens the file in the folder named by NEARFIELD_FORECAST, before MPI_Init. Returns whether there is one.
bool open_file();
Header& header();
// Starts counting; the caller first fills in the header's fields about this rank.
void begin();
// Sets how many ticks the layer itself takes in a timed call and, on average, in polls, most of which are not timed.
void set_cost(double timed_call, double repeated_poll);
// Ends the counting. Only the first call has an effect, and none in a forked child.
void end(State state);
// Assigns a table to the thread; returns null if there are too many threads.
Table* take_table();
// Adds a call to its row, and returns the row.
Row& count(Table& table, Function& function, const void* site, const Did& did, std::uint64_t begun, std::uint64_t ended,
           std::uint64_t between);

}  // namespace nearfield::forecast

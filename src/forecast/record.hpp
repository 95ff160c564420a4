// Counts calls into the tables of format.hpp. Nothing here knows MPI. A call costs at most two reads of the processor's
// counter and an addition to a row of its thread's own table: no lock and no allocation, except where a row is new.
#pragma once

#include <atomic>
#include <cstdint>

#include "forecast/format.hpp"

namespace nearfield::forecast {

// Reads the processor's counter without ordering: what it measures takes a hundred times as long.
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

// An MPI function; its number is the place of its name among the file's names, and 0 until it is first called.
struct Function {
  const char* name;
  std::atomic<std::uint32_t> number{0};
};

// What one call did.
struct Did {
  Category category = Category::other;
  Place place = Place::node;
  std::uint64_t messages = 0, bytes = 0;  // of all messages together
};

struct Thread {
  int depth = 0;                       // of MPI functions that call one another
  bool has_asked = false;              // for a table
  const void* fortran_site = nullptr;  // where Fortran's binding was called
  Table* table = nullptr;
};
inline thread_local constinit __attribute__((tls_model("initial-exec"))) Thread thread;
inline std::atomic<bool> is_active = false;

// Opens the file in the folder that NEARFIELD_FORECAST names, before MPI_Init. Returns whether there is one.
bool open_file();
Header& header();
// Begins to count; before that, the caller fills in the header who this rank is.
void begin();
// Says how many ticks the layer itself takes in a timed call and, on average, in polls that mostly are not timed.
void set_cost(double timed_call, double repeated_poll);
// Notes the end of what is counted. Only the first call has an effect, and none has in a child made by fork.
void end(State state);
// Gives the thread its table; null if there are too many threads.
Table* take_table();
// Adds a call to its row, and returns the row.
Row& count(Table& table, Function& function, const void* site, const Did& did, std::uint64_t begun, std::uint64_t ended,
           std::uint64_t between);

}  // namespace nearfield::forecast

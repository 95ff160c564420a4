// The layout of the file that each rank writes: a header, and a table of rows for each thread that has called MPI. The
// file is mapped while the program runs, so the data survive if the program is killed.
// python/nearfield/forecast/ranks.py reads the same layout: change both together, with a new `version`.
#pragma once

#include <cstddef>
#include <cstdint>

namespace nearfield::forecast {

constexpr char magic[8] = {'n', 'f', 'c', 'a', 's', 't', '\n', 0};
constexpr std::uint32_t version = 1;

constexpr int max_tables = 64;        // number of threads that call MPI at the same time
constexpr int rows_per_table = 1024;  // a power of two
constexpr int names_bytes = 48 << 10;
constexpr int max_objects = 64;

enum class RunState : std::uint32_t { running, finalized, exited };  // exited: without MPI_Finalize

// A snapshot of operating-system counters of this process and of its node.
struct Usage {
  std::uint64_t ticks, wall_ns;              // the time by the processor's counter and by CLOCK_MONOTONIC
  std::uint64_t user_ns, system_ns;          // CPU time of all threads
  std::uint64_t minor_faults, resident_max;  // resident_max: peak, in KiB
  std::uint64_t voluntary, involuntary;      // context switches
  std::uint64_t delay_ns;                    // time in which threads were runnable without a core
  std::uint64_t has_delay;                   // 0: the kernel does not report it
  std::uint64_t busy, idle, stolen;          // of all cores of the node, in clock ticks of _SC_CLK_TCK
};

struct Object {
  std::uint64_t base;  // load address minus the offset in the file
  char path[248];
};

struct Header {
  char magic[8];
  std::uint32_t version;
  RunState state;
  std::int32_t pid, rank, ranks, node_ranks;
  std::uint32_t is_spawned, lost_threads;  // lost_threads: number of threads without a table
  std::uint64_t first_ticks, first_ns;     // before MPI_Init
  Usage begin, end;                        // after MPI_Init, before MPI_Finalize
  double fault_ns, call_ns;                // cost of a page fault, and of this layer per average call
  std::uint64_t cores[16];                 // bit mask of the cores in the affinity mask
  char host[128], library[128];
  std::uint32_t names_used, objects_used;
  Object objects[max_objects];
  char names[names_bytes];  // zero-terminated names of calls; the first is empty
};

struct Row {
  std::uint64_t site;    // the return address
  std::uint32_t key;     // make_key(); 0: the row is free
  std::uint32_t object;  // number of the object, from 1; 0: unknown
  std::uint64_t calls, messages, bytes, ticks;
  std::uint64_t between;  // ticks between a poll and the next poll
};

struct Table {
  std::uint32_t taken, is_first;               // is_first: the table of the thread that called MPI_Init
  std::uint64_t last_ticks;                    // the end of the thread's last call
  std::uint64_t sent_to_node, sent_to_others;  // bytes sent
  std::uint64_t untimed;                       // number of calls counted without reading the clock
  std::uint64_t unused[3];
  Row rows[rows_per_table];
};

// The category of a call, which determines how the call could be accelerated.
enum class Category : std::uint32_t { other, point_to_point, collective, neighbours, one_sided, completion, file };
// Where the peers of a call are: on this node, on other nodes, or on both.
enum class Place : std::uint32_t { node, others, both };

constexpr std::uint32_t make_key(std::uint32_t name, Category category, Place place, std::uint32_t size_class) {
  return name << 16 | static_cast<std::uint32_t>(category) << 12 | static_cast<std::uint32_t>(place) << 8 | size_class;
}

// Returns the class of a size, in powers of four: 0 for 0 bytes, 1 for 1 to 3, 2 for 4 to 15, and so on.
constexpr std::uint32_t size_class(std::uint64_t bytes) {
  return bytes ? static_cast<std::uint32_t>(65 - __builtin_clzll(bytes)) / 2 : 0;
}
static_assert(size_class(3) == 1 && size_class(4) == 2 && size_class(15) == 2 && size_class(16) == 3);

static_assert(sizeof(Row) == 56 && sizeof(Usage) == 104 && sizeof(Object) == 256 && offsetof(Table, rows) == 64);
static_assert(offsetof(Header, begin) == 56 && offsetof(Header, fault_ns) == 264 && offsetof(Header, cores) == 280);
static_assert(offsetof(Header, host) == 408 && offsetof(Header, objects) == 672);

}  // namespace nearfield::forecast

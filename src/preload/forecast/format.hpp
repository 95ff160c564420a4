// The file that each rank writes: a header, and a table of rows for each thread that called MPI. The file is mapped
// while the program runs, so a program that is killed leaves its data. python/nearfield/forecast/ranks.py reads the
// same layout: change both together, with a new `version`.
#pragma once

#include <cstddef>
#include <cstdint>

namespace nearfield::forecast {

constexpr char magic[8] = {'n', 'f', 'c', 'a', 's', 't', '\n', 0};
constexpr std::uint32_t version = 1;

constexpr int max_tables = 64;        // threads that call MPI at the same time
constexpr int rows_per_table = 1024;  // a power of two
constexpr int names_bytes = 48 << 10;
constexpr int max_objects = 64;

enum class State : std::uint32_t { running, finalized, exited };  // exited: without MPI_Finalize

// A snapshot of operating system counters of this process and its node.
struct Usage {
  std::uint64_t ticks, wall_ns;              // of the processor's counter and of CLOCK_MONOTONIC
  std::uint64_t user_ns, system_ns;          // processor time of all threads
  std::uint64_t minor_faults, resident_max;  // resident_max: peak, in KiB
  std::uint64_t voluntary, involuntary;      // context switches
  std::uint64_t delay_ns;                    // all threads: runnable without a core
  std::uint64_t has_delay;                   // 0: the kernel does not report it
  std::uint64_t busy, idle, stolen;          // of all cores of the node, in clock ticks of _SC_CLK_TCK
};

struct Object {
  std::uint64_t base;  // of its addresses
  char path[248];
};

struct Header {
  char magic[8];
  std::uint32_t version;
  State state;
  std::int32_t pid, rank, ranks, node_ranks;
  std::uint32_t is_spawned, lost_threads;  // lost: threads without a table
  std::uint64_t first_ticks, first_ns;     // before MPI_Init
  Usage begin, end;                        // after MPI_Init, before MPI_Finalize
  double fault_ns, call_ns;                // the costs of a page fault, and of the layer itself in an average call
  std::uint64_t cores[16];                 // a bit for each core in the affinity mask
  char host[128], library[128];
  std::uint32_t names_used, objects_used;
  Object objects[max_objects];
  char names[names_bytes];  // of calls, each ends with a zero; the first one is empty
};

struct Row {
  std::uint64_t site;    // the return address
  std::uint32_t key;     // make_key(); 0: the row is free
  std::uint32_t object;  // its number from 1; 0: not known
  std::uint64_t calls, messages, bytes, ticks;
  std::uint64_t between;  // ticks from a poll to the next one
};

struct Table {
  std::uint32_t taken, is_first;               // is_first: of the thread that called MPI_Init
  std::uint64_t last_ticks;                    // the end of its last call
  std::uint64_t sent_to_node, sent_to_others;  // bytes
  std::uint64_t untimed;                       // calls that were counted without reading the clock
  std::uint64_t unused[3];
  Row rows[rows_per_table];
};

// The kind of a call, which determines what could accelerate it.
enum class Category : std::uint32_t { other, point_to_point, collective, neighbours, one_sided, completion, file };
// The location of its partners.
enum class Place : std::uint32_t { node, others, both };

constexpr std::uint32_t make_key(std::uint32_t name, Category category, Place place, std::uint32_t size_class) {
  return name << 16 | static_cast<std::uint32_t>(category) << 12 | static_cast<std::uint32_t>(place) << 8 | size_class;
}

// Returns 0 for no bytes, 1 for 1 to 3, 2 for 4 to 15, and so on in powers of four.
constexpr std::uint32_t size_class(std::uint64_t bytes) {
  return bytes ? static_cast<std::uint32_t>(65 - __builtin_clzll(bytes)) / 2 : 0;
}
static_assert(size_class(3) == 1 && size_class(4) == 2 && size_class(15) == 2 && size_class(16) == 3);

static_assert(sizeof(Row) == 56 && sizeof(Usage) == 104 && sizeof(Object) == 256 && offsetof(Table, rows) == 64);
static_assert(offsetof(Header, begin) == 56 && offsetof(Header, fault_ns) == 264 && offsetof(Header, cores) == 280);
static_assert(offsetof(Header, host) == 408 && offsetof(Header, objects) == 672);

}  // namespace nearfield::forecast

// The file that each rank leaves behind: a header, and for each thread that called MPI a table of rows. The file is
// mapped while the program runs, so that a program that is killed leaves what it has. python/nearfield/forecast/ranks.py
// reads the same layout; a change here is a change there and a new `version`.
#pragma once

#include <cstddef>
#include <cstdint>

namespace nearfield::forecast {

constexpr char magic[8] = {'n', 'f', 'c', 'a', 's', 't', '\n', 0};
constexpr std::uint32_t version = 1;

constexpr int most_tables = 64;       // threads that call MPI at the same time
constexpr int rows_per_table = 1024;  // a power of two
constexpr int names_bytes = 48 << 10;
constexpr int most_objects = 64;

enum class State : std::uint32_t { running, finalized, exited };  // exited: without MPI_Finalize

// What the system says of this process and of its node at one moment.
struct Usage {
  std::uint64_t ticks, wall_ns;              // of the processor's counter and of CLOCK_MONOTONIC
  std::uint64_t user_ns, system_ns;          // processor time of all threads
  std::uint64_t minor_faults, resident_max;  // resident_max: the most KiB so far
  std::uint64_t voluntary, involuntary;      // context switches
  std::uint64_t delay_ns;                    // all threads were ready to run, and had no core
  std::uint64_t has_delay;                   // 0: this kernel does not tell
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
  std::uint32_t is_spawned, lost_threads;  // lost: threads that found no table
  std::uint64_t first_ticks, first_ns;     // before MPI_Init
  Usage begin, end;                        // after MPI_Init, before MPI_Finalize
  double fault_ns, call_ns;                // the costs of a page fault, and of the layer itself in a mean call
  std::uint64_t cores[16];                 // a bit for each core that this process may use
  char host[128], library[128];
  std::uint32_t names_used, objects_used;
  Object objects[most_objects];
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

// What a call is about, so what could make it faster.
enum class Category : std::uint32_t { other, point_to_point, collective, neighbours, one_sided, completion, file };
// Where its partners are.
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

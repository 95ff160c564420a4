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
struct ResourceUsage {
  std::uint64_t ticks, wall_ns;                            // the time by the processor's counter and by CLOCK_MONOTONIC
  std::uint64_t user_ns, system_ns;                        // CPU time of all threads
  std::uint64_t minor_faults, max_resident_kib;            // max_resident_kib: peak, in KiB
  std::uint64_t voluntary_switches, involuntary_switches;  // context switches
  std::uint64_t delay_ns;                                  // time in which threads were runnable without a core
  std::uint64_t is_delay_reported;                         // 0: the kernel does not report it
  // of all cores of the node, in clock ticks of _SC_CLK_TCK
  std::uint64_t busy_clock_ticks, idle_clock_ticks, stolen_clock_ticks;
};

struct LoadedObject {
  std::uint64_t base;  // load address minus the offset in the file
  char path[248];
};

struct FileHeader {
  char magic[8];
  std::uint32_t version;
  RunState state;
  std::int32_t pid, rank, ranks, node_ranks;
  std::uint32_t is_spawned, num_threads_without_table;  // num_threads_without_table: number of threads without a table
  std::uint64_t ticks_before_init, ns_before_init;      // before MPI_Init
  ResourceUsage usage_after_init, usage_before_finalize;  // after MPI_Init, before MPI_Finalize
  double page_fault_ns, overhead_per_call_ns;             // cost of a page fault, and of this layer per average call
  std::uint64_t core_mask[16];                            // bit mask of the cores in the affinity mask
  char host[128], library[128];
  std::uint32_t used_name_bytes, num_objects;
  LoadedObject objects[max_objects];
  char names[names_bytes];  // zero-terminated names of calls; the first is empty
};

struct CallRow {
  std::uint64_t call_site;      // the return address
  std::uint32_t row_key;        // make_row_key(); 0: the row is free
  std::uint32_t object_number;  // number of the object, from 1; 0: unknown
  std::uint64_t num_calls, num_messages, bytes, call_ticks;
  std::uint64_t gap_ticks;  // ticks between a poll and the next poll
};

struct ThreadTable {
  std::uint32_t is_assigned, is_first;  // is_first: the table of the thread that called MPI_Init
  std::uint64_t last_ticks;             // the end of the thread's last call
  std::uint64_t bytes_sent_on_node, bytes_sent_to_other_nodes;  // bytes sent
  std::uint64_t num_untimed_calls;                              // number of calls counted without reading the clock
  std::uint64_t unused[3];
  CallRow rows[rows_per_table];
};

// The category of a call, which determines how the call could be accelerated.
enum class CallCategory : std::uint32_t {
  other,
  point_to_point,
  collective,
  neighborhood,
  one_sided,
  completion,
  file
};
// Where the peers of a call are: on this node, on other nodes, or on both.
enum class PeerLocation : std::uint32_t { this_node, other_nodes, both };

constexpr std::uint32_t make_row_key(std::uint32_t name, CallCategory category, PeerLocation location,
                                     std::uint32_t size_class) {
  return name << 16 | static_cast<std::uint32_t>(category) << 12 | static_cast<std::uint32_t>(location) << 8 |
         size_class;
}

// Returns the class of a size, in powers of four: 0 for 0 bytes, 1 for 1 to 3, 2 for 4 to 15, and so on.
constexpr std::uint32_t size_class(std::uint64_t bytes) {
  return bytes ? static_cast<std::uint32_t>(65 - __builtin_clzll(bytes)) / 2 : 0;
}
static_assert(size_class(3) == 1 && size_class(4) == 2 && size_class(15) == 2 && size_class(16) == 3);

static_assert(sizeof(CallRow) == 56 && sizeof(ResourceUsage) == 104 && sizeof(LoadedObject) == 256 &&
              offsetof(ThreadTable, rows) == 64);
static_assert(offsetof(FileHeader, usage_after_init) == 56 && offsetof(FileHeader, page_fault_ns) == 264 &&
              offsetof(FileHeader, core_mask) == 280);
static_assert(offsetof(FileHeader, host) == 408 && offsetof(FileHeader, objects) == 672);

}  // namespace nearfield::forecast

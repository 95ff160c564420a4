#include "preload/forecast/record.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "preload/forecast/usage.hpp"

namespace nearfield::forecast {
namespace {

constexpr std::size_t tables_offset = (sizeof(FileHeader) + 4095) / 4096 * 4096;
constexpr std::size_t table_bytes = (sizeof(ThreadTable) + 4095) / 4096 * 4096;
constexpr std::size_t file_bytes = tables_offset + max_tables * table_bytes;

char* mapped_file = nullptr;
int file = -1;
pthread_mutex_t setup_mutex = PTHREAD_MUTEX_INITIALIZER;  // for rare operations: new names, objects, tables
pthread_key_t thread_end_key;

struct SetupLock {
  SetupLock() { pthread_mutex_lock(&setup_mutex); }
  ~SetupLock() { pthread_mutex_unlock(&setup_mutex); }
};

ThreadTable& thread_table_at(int number) {
  return *reinterpret_cast<ThreadTable*>(mapped_file + tables_offset + static_cast<std::size_t>(number) * table_bytes);
}

// Allocates disk space for a part of the file: without space, a write to a mapped page would kill the program by
// SIGBUS. Returns false if there is no space.
bool reserve_disk_space(std::size_t from, std::size_t bytes) {
  static const char zeros[4096] = {};
  for (std::size_t at = from; at < from + bytes; at += sizeof zeros)
    if (pwrite(file, zeros, sizeof zeros, static_cast<off_t>(at)) != static_cast<ssize_t>(sizeof zeros)) return false;
  return true;
}

void release_table(void* table) { static_cast<ThreadTable*>(table)->is_assigned = 0; }

// ---- names and objects

std::uint32_t add_name(MpiFunction& function) {
  const SetupLock lock;
  if (const std::uint32_t name_offset = function.name_offset.load()) return name_offset;
  FileHeader& header = file_header();
  const std::size_t length = std::strlen(function.name) + 1;
  if (header.used_name_bytes + length > names_bytes) return 0;
  std::memcpy(header.names + header.used_name_bytes, function.name, length);
  const std::uint32_t name_offset = header.used_name_bytes;
  header.used_name_bytes += static_cast<std::uint32_t>(length);
  function.name_offset.store(name_offset);
  return name_offset;
}

const char* executable_path() {
  static char name[sizeof(LoadedObject::path)];
  if (!name[0] && readlink("/proc/self/exe", name, sizeof name - 1) < 0) name[0] = '?';
  return name;
}

// Returns the number, from 1, of the object (executable or shared library) that contains the code address; adds the
// object to the header if it is new. Returns 0 if no object contains the address, or the header is full.
std::uint32_t object_number_of(std::uint64_t site) {
  Dl_info found;
  link_map* map = nullptr;
  if (!site || !dladdr1(reinterpret_cast<void*>(site), &found, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) || !map)
    return 0;
  const SetupLock lock;
  FileHeader& header = file_header();
  for (std::uint32_t i = 0; i < header.num_objects; ++i)
    if (header.objects[i].base == map->l_addr) return i + 1;
  if (header.num_objects == max_objects) return 0;
  LoadedObject& object = header.objects[header.num_objects];
  object.base = map->l_addr;
  std::snprintf(object.path, sizeof object.path, "%s", map->l_name && *map->l_name ? map->l_name : executable_path());
  return ++header.num_objects;
}

// ---- rows

constexpr int max_probed_rows = 16;

CallRow* find_row(ThreadTable& table, std::uint64_t site, std::uint32_t key) {
  const std::uint64_t hash = (site ^ std::uint64_t{key} << 20) * 0x9e3779b97f4a7c15;
  for (int step = 0; step < max_probed_rows; ++step) {
    CallRow& row = table.rows[((hash >> 40) + static_cast<std::uint64_t>(step)) % rows_per_table];
    if (row.row_key == key && row.call_site == site) return &row;
    if (row.row_key) continue;
    row.call_site = site;
    row.object_number = object_number_of(site);
    row.row_key = key;
    return &row;
  }
  return nullptr;
}

// Returns the row for a call. In a nearly full table, calls share rows: first calls that differ only in their call
// site, then all calls.
CallRow& find_or_share_row(ThreadTable& table, std::uint64_t site, std::uint32_t key) {
  if (CallRow* row = find_row(table, site, key)) return *row;
  if (CallRow* row = find_row(table, 0, key)) return *row;
  return table.rows[0];
}

}  // namespace

FileHeader& file_header() { return *reinterpret_cast<FileHeader*>(mapped_file); }

bool create_record_file() {
  const char* const folder = std::getenv("NEARFIELD_FORECAST");
  if (!folder || !*folder || mapped_file) return mapped_file;
  char host[sizeof(FileHeader::host)] = "";
  gethostname(host, sizeof host - 1);
  char path[4096];
  std::snprintf(path, sizeof path, "%s/%s-%ld.rank", folder, host, static_cast<long>(getpid()));
  file = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) return false;
  void* memory = MAP_FAILED;
  if (reserve_disk_space(0, tables_offset) && ftruncate(file, file_bytes) == 0)
    memory = mmap(nullptr, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) {
    close(file);
    unlink(path);
    return false;
  }
  mapped_file = static_cast<char*>(memory);
  const ResourceUsage now = read_usage();
  file_header().ticks_before_init = now.ticks;
  file_header().ns_before_init = now.wall_ns;
  std::memcpy(file_header().host, host, sizeof host);
  return true;
}

void begin_counting() {
  pthread_key_create(&thread_end_key, release_table);
  FileHeader& header = file_header();
  header.version = version;
  header.pid = static_cast<std::int32_t>(getpid());
  header.used_name_bytes = 1;
  record_affinity_mask(header);
  std::memcpy(header.magic, magic, sizeof magic);
  if (ThreadTable* table = find_or_assign_thread_table()) table->is_first = 1;
  header.usage_after_init = read_usage();
  is_active = true;
}

namespace {
double timed_call_ticks = 0, repeated_poll_ticks = 0;

// Returns the mean overhead of this layer per call in ns, over all calls of all threads.
double mean_call_ns() {
  std::uint64_t calls = 0, num_untimed = 0;
  for (int i = 0; i < max_tables; ++i) {
    const ThreadTable& table = thread_table_at(i);
    if (!table.last_ticks) continue;
    num_untimed += table.num_untimed_calls;
    for (const CallRow& row : table.rows) calls += row.num_calls;
  }
  if (!calls) return 0;
  const FileHeader& header = file_header();
  const double ns_per_tick = static_cast<double>(header.usage_before_finalize.wall_ns - header.ns_before_init) /
                             static_cast<double>(header.usage_before_finalize.ticks - header.ticks_before_init);
  const double share = static_cast<double>(num_untimed) / static_cast<double>(calls);
  return ns_per_tick * (share * repeated_poll_ticks + (1 - share) * timed_call_ticks);
}
}  // namespace

void set_layer_overhead(double ticks_per_timed_call, double ticks_per_repeated_poll) {
  timed_call_ticks = ticks_per_timed_call;
  repeated_poll_ticks = ticks_per_repeated_poll;
}

void end_counting(RunState state) {
  if (!is_active.exchange(false) || file_header().pid != static_cast<std::int32_t>(getpid())) return;
  FileHeader& header = file_header();
  header.usage_before_finalize = read_usage();
  header.page_fault_ns = measure_page_fault_ns();
  header.overhead_per_call_ns = mean_call_ns();
  header.state = state;
}

ThreadTable* find_or_assign_thread_table() {
  if (thread_state.has_requested_table) return thread_state.table;
  thread_state.has_requested_table = true;
  const SetupLock lock;
  for (int i = 0; i < max_tables; ++i) {
    ThreadTable& table = thread_table_at(i);
    const bool is_new = table.last_ticks == 0 && !table.is_assigned;
    if (table.is_assigned ||
        (is_new && !reserve_disk_space(tables_offset + static_cast<std::size_t>(i) * table_bytes, table_bytes)))
      continue;
    table.is_assigned = 1;
    table.last_ticks = read_ticks();
    pthread_setspecific(thread_end_key, &table);
    return thread_state.table = &table;
  }
  ++file_header().num_threads_without_table;
  return nullptr;
}

CallRow& count_call(ThreadTable& table, MpiFunction& function, const void* site, const CallDescription& description,
                    std::uint64_t begin_ticks, std::uint64_t end_ticks, std::uint64_t gap_ticks) {
  std::uint32_t name_offset = function.name_offset.load(std::memory_order_relaxed);
  if (!name_offset) name_offset = add_name(function);
  const std::uint64_t size =
      description.num_messages > 1 ? description.bytes / description.num_messages : description.bytes;
  CallRow& row =
      find_or_share_row(table, reinterpret_cast<std::uint64_t>(site),
                        make_row_key(name_offset, description.category, description.location, size_class(size)));
  ++row.num_calls;
  row.num_messages += description.num_messages;
  row.bytes += description.bytes;
  row.call_ticks += end_ticks - begin_ticks;
  row.gap_ticks += gap_ticks;
  table.last_ticks = end_ticks;
  return row;
}

namespace {
// Ends the counting in programs that never call MPI_Finalize.
__attribute__((destructor)) void end_of_process() { end_counting(RunState::exited); }
}  // namespace

}  // namespace nearfield::forecast

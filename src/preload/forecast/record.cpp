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

constexpr std::size_t tables_at = (sizeof(Header) + 4095) / 4096 * 4096;
constexpr std::size_t table_bytes = (sizeof(Table) + 4095) / 4096 * 4096;
constexpr std::size_t file_bytes = tables_at + max_tables * table_bytes;

char* mapped = nullptr;
int file = -1;
pthread_mutex_t setup_mutex = PTHREAD_MUTEX_INITIALIZER;  // for rare operations: new names, objects, tables
pthread_key_t thread_end_key;

struct SetupLock {
  SetupLock() { pthread_mutex_lock(&setup_mutex); }
  ~SetupLock() { pthread_mutex_unlock(&setup_mutex); }
};

Table& table_at(int number) {
  return *reinterpret_cast<Table*>(mapped + tables_at + static_cast<std::size_t>(number) * table_bytes);
}

// Allocates disk space for a part of the file: without space, a write to a mapped page would kill the program by
// SIGBUS. Returns false if there is no space.
bool reserve_disk_space(std::size_t from, std::size_t bytes) {
  static const char zeros[4096] = {};
  for (std::size_t at = from; at < from + bytes; at += sizeof zeros)
    if (pwrite(file, zeros, sizeof zeros, static_cast<off_t>(at)) != static_cast<ssize_t>(sizeof zeros)) return false;
  return true;
}

void release_table(void* table) { static_cast<Table*>(table)->taken = 0; }

// ---- names and objects

std::uint32_t add_name(MpiFunction& function) {
  const SetupLock locked;
  if (const std::uint32_t known = function.number.load()) return known;
  Header& head = file_header();
  const std::size_t length = std::strlen(function.name) + 1;
  if (head.names_used + length > names_bytes) return 0;
  std::memcpy(head.names + head.names_used, function.name, length);
  const std::uint32_t number = head.names_used;
  head.names_used += static_cast<std::uint32_t>(length);
  function.number.store(number);
  return number;
}

const char* executable_path() {
  static char name[sizeof(Object::path)];
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
  const SetupLock locked;
  Header& head = file_header();
  for (std::uint32_t i = 0; i < head.objects_used; ++i)
    if (head.objects[i].base == map->l_addr) return i + 1;
  if (head.objects_used == max_objects) return 0;
  Object& object = head.objects[head.objects_used];
  object.base = map->l_addr;
  std::snprintf(object.path, sizeof object.path, "%s", map->l_name && *map->l_name ? map->l_name : executable_path());
  return ++head.objects_used;
}

// ---- rows

constexpr int max_probed_rows = 16;

Row* find_row(Table& table, std::uint64_t site, std::uint32_t key) {
  const std::uint64_t hash = (site ^ std::uint64_t{key} << 20) * 0x9e3779b97f4a7c15;
  for (int step = 0; step < max_probed_rows; ++step) {
    Row& row = table.rows[((hash >> 40) + static_cast<std::uint64_t>(step)) % rows_per_table];
    if (row.key == key && row.site == site) return &row;
    if (row.key) continue;
    row.site = site;
    row.object = object_number_of(site);
    row.key = key;
    return &row;
  }
  return nullptr;
}

// Returns the row for a call. In a nearly full table calls share rows: first regardless of the call site, then all
// calls.
Row& find_or_share_row(Table& table, std::uint64_t site, std::uint32_t key) {
  if (Row* row = find_row(table, site, key)) return *row;
  if (Row* row = find_row(table, 0, key)) return *row;
  return table.rows[0];
}

}  // namespace

Header& file_header() { return *reinterpret_cast<Header*>(mapped); }

bool open_record_file() {
  const char* const folder = std::getenv("NEARFIELD_FORECAST");
  if (!folder || !*folder || mapped) return mapped;
  char host[sizeof(Header::host)] = "";
  gethostname(host, sizeof host - 1);
  char path[4096];
  std::snprintf(path, sizeof path, "%s/%s-%ld.rank", folder, host, static_cast<long>(getpid()));
  file = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) return false;
  void* memory = MAP_FAILED;
  if (reserve_disk_space(0, tables_at) && ftruncate(file, file_bytes) == 0)
    memory = mmap(nullptr, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) {
    close(file);
    unlink(path);
    return false;
  }
  mapped = static_cast<char*>(memory);
  const Usage now = read_usage();
  file_header().first_ticks = now.ticks;
  file_header().first_ns = now.wall_ns;
  std::memcpy(file_header().host, host, sizeof host);
  return true;
}

void begin_counting() {
  pthread_key_create(&thread_end_key, release_table);
  Header& head = file_header();
  head.version = version;
  head.pid = static_cast<std::int32_t>(getpid());
  head.names_used = 1;
  record_affinity_mask(head);
  std::memcpy(head.magic, magic, sizeof magic);
  if (Table* table = get_thread_table()) table->is_first = 1;
  head.begin = read_usage();
  is_active = true;
}

namespace {
double timed_call_ticks = 0, repeated_poll_ticks = 0;

// Returns the mean overhead of this layer per call in ns, over all calls of all threads.
double mean_call_ns() {
  std::uint64_t calls = 0, untimed = 0;
  for (int i = 0; i < max_tables; ++i) {
    const Table& table = table_at(i);
    if (!table.last_ticks) continue;
    untimed += table.untimed;
    for (const Row& row : table.rows) calls += row.calls;
  }
  if (!calls) return 0;
  const Header& head = file_header();
  const double ns_per_tick =
      static_cast<double>(head.end.wall_ns - head.first_ns) / static_cast<double>(head.end.ticks - head.first_ticks);
  const double share = static_cast<double>(untimed) / static_cast<double>(calls);
  return ns_per_tick * (share * repeated_poll_ticks + (1 - share) * timed_call_ticks);
}
}  // namespace

void set_layer_overhead(double timed_call, double repeated_poll) {
  timed_call_ticks = timed_call;
  repeated_poll_ticks = repeated_poll;
}

void end_counting(RunState state) {
  if (!is_active.exchange(false) || file_header().pid != static_cast<std::int32_t>(getpid())) return;
  Header& head = file_header();
  head.end = read_usage();
  head.fault_ns = measure_fault_ns();
  head.call_ns = mean_call_ns();
  head.state = state;
}

Table* get_thread_table() {
  if (thread_state.has_requested_table) return thread_state.table;
  thread_state.has_requested_table = true;
  const SetupLock locked;
  for (int i = 0; i < max_tables; ++i) {
    Table& table = table_at(i);
    const bool is_new = table.last_ticks == 0 && !table.taken;
    if (table.taken ||
        (is_new && !reserve_disk_space(tables_at + static_cast<std::size_t>(i) * table_bytes, table_bytes)))
      continue;
    table.taken = 1;
    table.last_ticks = read_ticks();
    pthread_setspecific(thread_end_key, &table);
    return thread_state.table = &table;
  }
  ++file_header().lost_threads;
  return nullptr;
}

Row& count_call(Table& table, MpiFunction& function, const void* site, const CallDescription& did, std::uint64_t begun,
                std::uint64_t ended, std::uint64_t between) {
  std::uint32_t number = function.number.load(std::memory_order_relaxed);
  if (!number) number = add_name(function);
  const std::uint64_t size = did.messages > 1 ? did.bytes / did.messages : did.bytes;
  Row& row = find_or_share_row(table, reinterpret_cast<std::uint64_t>(site),
                               make_key(number, did.category, did.place, size_class(size)));
  ++row.calls;
  row.messages += did.messages;
  row.bytes += did.bytes;
  row.ticks += ended - begun;
  row.between += between;
  table.last_ticks = ended;
  return row;
}

namespace {
// Ends the counting in programs that never call MPI_Finalize.
__attribute__((destructor)) void end_of_process() { end_counting(RunState::exited); }
}  // namespace

}  // namespace nearfield::forecast

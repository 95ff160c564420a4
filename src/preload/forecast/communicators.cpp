#include "preload/forecast/communicators.hpp"

#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <utility>

#include "preload/mpi/handles.hpp"

namespace nearfield::forecast {
namespace {

constexpr int max_entries = 2048, max_probed_slots = 32;  // size of the hash table; maximum number of probed slots

std::atomic<CommunicatorInfo*> table[max_entries];
CommunicatorInfo removed_entry{};  // marks the slot of a removed communicator
pthread_mutex_t table_mutex = PTHREAD_MUTEX_INITIALIZER;

// ---- memory allocation: not from the C library's heap, since one more block there may change when the program's heap
// returns memory to the system

char *free_block = nullptr, *free_block_end = nullptr;
CommunicatorInfo* freed_communicators = nullptr;  // list of freed objects

void* map_memory(std::size_t bytes) {
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

// Returns a zeroed communicator with space for `ranks` ranks; null if there is no memory. The caller must hold the
// table's mutex.
CommunicatorInfo* allocate_communicator(std::size_t ranks) {
  constexpr std::size_t block_bytes = 1 << 16, alignment = alignof(CommunicatorInfo);
  for (CommunicatorInfo** link = &freed_communicators; *link; link = &(*link)->next)
    if (static_cast<std::size_t>((*link)->size) >= ranks) {
      CommunicatorInfo* const reused = std::exchange(*link, (*link)->next);
      *reused = {};
      return reused;
    }
  const std::size_t bytes = (sizeof(CommunicatorInfo) + ranks + alignment - 1) / alignment * alignment;
  if (bytes > static_cast<std::size_t>(free_block_end - free_block)) {
    const std::size_t mapped_bytes = std::max(block_bytes, bytes);
    free_block = static_cast<char*>(map_memory(mapped_bytes));
    free_block_end = free_block ? free_block + mapped_bytes : nullptr;
    if (!free_block) return nullptr;
  }
  return reinterpret_cast<CommunicatorInfo*>(std::exchange(free_block, free_block + bytes));
}

void free_communicator(CommunicatorInfo* comm) { comm->next = std::exchange(freed_communicators, comm); }

// A temporary array of integers, allocated by mmap.
class TemporaryIntegers {
 public:
  explicit TemporaryIntegers(int count)
      : size_(static_cast<std::size_t>(std::max(1, count))),
        values_(static_cast<int*>(map_memory(size_ * sizeof(int)))) {}
  TemporaryIntegers(const TemporaryIntegers&) = delete;
  TemporaryIntegers& operator=(const TemporaryIntegers&) = delete;
  ~TemporaryIntegers() {
    if (values_) munmap(values_, size_ * sizeof(int));
  }
  explicit operator bool() const { return values_; }
  int* data() { return values_; }
  int& operator[](int index) { return values_[index]; }

 private:
  std::size_t size_;
  int* values_;
};

// ---- the hash table of communicators

template <class Handle>
std::uint64_t key_of(Handle handle) {
  if constexpr (std::is_pointer_v<Handle>)
    return reinterpret_cast<std::uintptr_t>(handle);
  else
    return static_cast<std::uint32_t>(handle);
}

std::atomic<CommunicatorInfo*>& slot_at(std::uint64_t key, int step) {
  return table[((key * 0x9e3779b97f4a7c15 >> 40) + static_cast<std::uint64_t>(step)) % max_entries];
}

// Returns the slot of the communicator; null if the table does not contain the communicator.
std::atomic<CommunicatorInfo*>* find_slot(std::uint64_t key) {
  for (int step = 0; step < max_probed_slots; ++step) {
    auto& slot = slot_at(key, step);
    CommunicatorInfo* const entry = slot.load(std::memory_order_acquire);
    if (!entry) return nullptr;
    if (entry != &removed_entry && entry->key == key) return &slot;
  }
  return nullptr;
}

int count_destinations(MPI_Comm comm) {
  int kind = MPI_UNDEFINED, count = 0, num_sources = 0, is_weighted = 0, rank = 0;
  PMPI(MPI_Topo_test)(comm, &kind);
  if (kind == MPI_CART) {
    PMPI(MPI_Cartdim_get)(comm, &count);
    return 2 * count;
  }
  PMPI(MPI_Comm_rank)(comm, &rank);
  if (kind == MPI_GRAPH) PMPI(MPI_Graph_neighbors_count)(comm, rank, &count);
  if (kind == MPI_DIST_GRAPH) PMPI(MPI_Dist_graph_neighbors_count)(comm, &num_sources, &count, &is_weighted);
  return count;
}

// Calls use(size, ranks) with the world ranks of the communicator's local group, or of the remote group of an
// intercommunicator. Returns false if there is no memory.
template <class Use>
bool call_with_world_ranks(MPI_Comm comm, bool is_intercommunicator, Use use) {
  MPI_Group group, world;
  int size = 0;
  if (is_intercommunicator)
    PMPI(MPI_Comm_remote_group)(comm, &group);
  else
    PMPI(MPI_Comm_group)(comm, &group);
  PMPI(MPI_Comm_group)(MPI_COMM_WORLD, &world);
  PMPI(MPI_Group_size)(group, &size);
  TemporaryIntegers ranks(size), world_ranks(size);
  const bool has_memory = ranks && world_ranks;
  if (has_memory) {
    for (int i = 0; i < size; ++i) ranks[i] = i;
    PMPI(MPI_Group_translate_ranks)(group, size, ranks.data(), world, world_ranks.data());
    use(size, world_ranks.data());
  }
  PMPI(MPI_Group_free)(&group);
  PMPI(MPI_Group_free)(&world);
  return has_memory;
}

PeerLocation location_of_peers(const CommunicatorInfo& comm, int rank) {
  bool has_local = false, has_remote = false;
  for (int i = 0; i < comm.size; ++i)
    if (i != rank) (comm.is_local[i] ? has_local : has_remote) = true;
  return !has_remote ? PeerLocation::this_node : has_local ? PeerLocation::both : PeerLocation::other_nodes;
}

CommunicatorInfo* world_communicator = nullptr;  // which ranks of MPI_COMM_WORLD are on this node

// Returns whether a rank of MPI_COMM_WORLD is on this node; true for spawned ranks, which do not belong to
// MPI_COMM_WORLD.
bool is_on_this_node(int world_rank) {
  return world_rank < 0 || !world_communicator || world_rank >= world_communicator->size ||
         world_communicator->is_local[world_rank];
}

CommunicatorInfo* describe_communicator(MPI_Comm comm) {
  int is_intercommunicator = 0, rank = -1;
  PMPI(MPI_Comm_test_inter)(comm, &is_intercommunicator);
  CommunicatorInfo* info = nullptr;
  call_with_world_ranks(comm, is_intercommunicator, [&](int size, const int* ranks) {
    info = allocate_communicator(static_cast<std::size_t>(size));
    if (!info) return;
    info->size = size;
    for (int i = 0; i < size; ++i) info->is_local[i] = is_on_this_node(ranks[i]);
  });
  if (!info) return nullptr;
  info->key = key_of(comm);
  info->is_intercommunicator = is_intercommunicator;
  if (!is_intercommunicator) {
    PMPI(MPI_Comm_rank)(comm, &rank);
    info->num_destinations = count_destinations(comm);
  }
  info->location = location_of_peers(*info, rank);
  return info;
}

void insert_in_table(CommunicatorInfo* comm) {
  for (int step = 0; step < max_probed_slots; ++step) {
    auto& slot = slot_at(comm->key, step);
    CommunicatorInfo* const entry = slot.load(std::memory_order_relaxed);
    if (entry && entry != &removed_entry) continue;
    slot.store(comm, std::memory_order_release);
    return;
  }
  free_communicator(comm);
}

}  // namespace

// Does not use MPI_Comm_split_type, because the memory that it allocates in the MPI library would remain on the
// program's heap.
int find_ranks_on_node(const char* host) {
  std::uint64_t own_hash = 0xcbf29ce484222325;  // FNV-1a
  for (; *host; ++host) own_hash = (own_hash ^ static_cast<unsigned char>(*host)) * 0x100000001b3;
  int ranks = 1, num_on_node = 0;
  PMPI(MPI_Comm_size)(MPI_COMM_WORLD, &ranks);
  const std::size_t bytes = static_cast<std::size_t>(ranks) * sizeof own_hash;
  auto* const hosts = static_cast<std::uint64_t*>(map_memory(bytes));
  world_communicator = allocate_communicator(static_cast<std::size_t>(ranks));
  if (!hosts || !world_communicator) std::abort();  // the other ranks wait for this one
  PMPI(MPI_Allgather)(&own_hash, sizeof own_hash, MPI_BYTE, hosts, sizeof own_hash, MPI_BYTE, MPI_COMM_WORLD);
  world_communicator->size = ranks;
  for (int i = 0; i < ranks; ++i) num_on_node += world_communicator->is_local[i] = hosts[i] == own_hash;
  munmap(hosts, bytes);
  return num_on_node;
}

const CommunicatorInfo* find_or_add_communicator(MPI_Comm comm) {
  const std::uint64_t key = key_of(comm);
  if (auto* const slot = find_slot(key)) return slot->load(std::memory_order_acquire);
  if (comm == MPI_COMM_NULL) return nullptr;
  pthread_mutex_lock(&table_mutex);
  if (!find_slot(key))
    if (CommunicatorInfo* const info = describe_communicator(comm)) insert_in_table(info);
  pthread_mutex_unlock(&table_mutex);
  auto* const slot = find_slot(key);
  return slot ? slot->load(std::memory_order_acquire) : nullptr;
}

void remove_communicator(MPI_Comm comm) {
  pthread_mutex_lock(&table_mutex);
  if (auto* const slot = find_slot(key_of(comm))) free_communicator(slot->exchange(&removed_entry));
  pthread_mutex_unlock(&table_mutex);
}

}  // namespace nearfield::forecast

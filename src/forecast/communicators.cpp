#include "forecast/communicators.hpp"

#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/mpi_handles.hpp"

namespace nearfield::forecast {
namespace {

constexpr int most = 2048, most_steps = 32;  // in the table; steps from a communicator's place in it to where it lies

std::atomic<Communicator*> table[most];
Communicator gone{};  // stands where one was
pthread_mutex_t changing = PTHREAD_MUTEX_INITIALIZER;

template <class Handle>
std::uint64_t key_of(Handle handle) {
  if constexpr (std::is_pointer_v<Handle>)
    return reinterpret_cast<std::uintptr_t>(handle);
  else
    return static_cast<std::uint32_t>(handle);
}

std::atomic<Communicator*>& slot_at(std::uint64_t key, int step) {
  return table[((key * 0x9e3779b97f4a7c15 >> 40) + static_cast<std::uint64_t>(step)) % most];
}

// Returns where the communicator lies; null if it is not in the table.
std::atomic<Communicator*>* find(std::uint64_t key) {
  for (int step = 0; step < most_steps; ++step) {
    auto& slot = slot_at(key, step);
    Communicator* const there = slot.load(std::memory_order_acquire);
    if (!there) return nullptr;
    if (there != &gone && there->key == key) return &slot;
  }
  return nullptr;
}

int neighbours_of(MPI_Comm comm) {
  int kind = MPI_UNDEFINED, count = 0, in = 0, weighted = 0, rank = 0;
  PMPI(MPI_Topo_test)(comm, &kind);
  if (kind == MPI_CART) {
    PMPI(MPI_Cartdim_get)(comm, &count);
    return 2 * count;
  }
  PMPI(MPI_Comm_rank)(comm, &rank);
  if (kind == MPI_GRAPH) PMPI(MPI_Graph_neighbors_count)(comm, rank, &count);
  if (kind == MPI_DIST_GRAPH) PMPI(MPI_Dist_graph_neighbors_count)(comm, &in, &count, &weighted);
  return count;
}

std::vector<int> world_ranks(MPI_Comm comm, bool is_between_groups) {
  MPI_Group group, world;
  int size = 0;
  if (is_between_groups)
    PMPI(MPI_Comm_remote_group)(comm, &group);
  else
    PMPI(MPI_Comm_group)(comm, &group);
  PMPI(MPI_Comm_group)(MPI_COMM_WORLD, &world);
  PMPI(MPI_Group_size)(group, &size);
  std::vector<int> ranks(static_cast<std::size_t>(size)), in_world(ranks.size());
  for (int i = 0; i < size; ++i) ranks[static_cast<std::size_t>(i)] = i;
  PMPI(MPI_Group_translate_ranks)(group, size, ranks.data(), world, in_world.data());
  PMPI(MPI_Group_free)(&group);
  PMPI(MPI_Group_free)(&world);
  return in_world;
}

Place place_of_all(const Communicator& comm, int rank) {
  bool here = false, elsewhere = false;
  for (int i = 0; i < comm.size; ++i)
    if (i != rank) (comm.is_here[i] ? here : elsewhere) = true;
  return !elsewhere ? Place::node : here ? Place::both : Place::others;
}

// Never destroyed: programs finalise MPI in exit handlers, in whatever order.
std::vector<unsigned char>& world_is_here() {
  static auto& only = *new std::vector<unsigned char>;
  return only;
}

// Ranks that are not in this job's world (spawned ones) may be here.
bool is_here(int world_rank) {
  return world_rank < 0 || static_cast<std::size_t>(world_rank) >= world_is_here().size() ||
         world_is_here()[static_cast<std::size_t>(world_rank)];
}

Communicator* described(MPI_Comm comm) {
  int is_between_groups = 0, rank = -1;
  PMPI(MPI_Comm_test_inter)(comm, &is_between_groups);
  const std::vector<int> ranks = world_ranks(comm, is_between_groups);
  auto* const made = static_cast<Communicator*>(std::calloc(1, sizeof(Communicator) + ranks.size()));
  if (!made) return nullptr;
  made->key = key_of(comm);
  made->size = static_cast<int>(ranks.size());
  made->is_between_groups = is_between_groups;
  for (std::size_t i = 0; i < ranks.size(); ++i) made->is_here[i] = is_here(ranks[i]);
  if (!is_between_groups) {
    PMPI(MPI_Comm_rank)(comm, &rank);
    made->destinations = neighbours_of(comm);
  }
  made->place = place_of_all(*made, rank);
  return made;
}

void put(Communicator* comm) {
  for (int step = 0; step < most_steps; ++step) {
    auto& slot = slot_at(comm->key, step);
    Communicator* const there = slot.load(std::memory_order_relaxed);
    if (there && there != &gone) continue;
    slot.store(comm, std::memory_order_release);
    return;
  }
  std::free(comm);
}

}  // namespace

int begin_communicators() {
  MPI_Comm node;
  PMPI(MPI_Comm_split_type)(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  int ranks = 1;
  PMPI(MPI_Comm_size)(MPI_COMM_WORLD, &ranks);
  world_is_here().assign(static_cast<std::size_t>(ranks), 0);
  const std::vector<int> here = world_ranks(node, false);
  for (const int rank : here) world_is_here()[static_cast<std::size_t>(rank)] = 1;
  PMPI(MPI_Comm_free)(&node);
  return static_cast<int>(here.size());
}

const Communicator* known(MPI_Comm comm) {
  const std::uint64_t key = key_of(comm);
  if (auto* const slot = find(key)) return slot->load(std::memory_order_acquire);
  if (comm == MPI_COMM_NULL) return nullptr;
  pthread_mutex_lock(&changing);
  if (!find(key))
    if (Communicator* const made = described(comm)) put(made);
  pthread_mutex_unlock(&changing);
  auto* const slot = find(key);
  return slot ? slot->load(std::memory_order_acquire) : nullptr;
}

void forget(MPI_Comm comm) {
  pthread_mutex_lock(&changing);
  if (auto* const slot = find(key_of(comm))) std::free(slot->exchange(&gone));
  pthread_mutex_unlock(&changing);
}

}  // namespace nearfield::forecast

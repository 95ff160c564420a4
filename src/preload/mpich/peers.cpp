#include "preload/mpich/peers.hpp"

#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "preload/mpi/library.hpp"

namespace nearfield::tune {
namespace {

Cpus own_binding() {
  Cpus cpus;
  if (sched_getaffinity(0, sizeof cpus, reinterpret_cast<cpu_set_t*>(&cpus)) < 0) cpus.reset();
  return cpus;
}

std::filesystem::path sysfs_root() {
  const char* made_up = std::getenv("NEARFIELD_SYSFS");
  return made_up ? made_up : "/sys";
}

std::vector<int> first_ranks(int n) {
  std::vector<int> ranks(static_cast<std::size_t>(n));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

}  // namespace

bool Peers::open(const Rules& rules, const std::map<std::pair<int, int>, Distance>& classes) {
  int rank = 0, size = 0;
  NEARFIELD_PMPI(MPI_Comm_rank)(MPI_COMM_WORLD, &rank);
  NEARFIELD_PMPI(MPI_Comm_size)(MPI_COMM_WORLD, &size);
  NEARFIELD_PMPI(MPI_Comm_group)(MPI_COMM_WORLD, &world_);
  NEARFIELD_PMPI(MPI_Comm_create_keyval)(MPI_COMM_NULL_COPY_FN, free_table, &keyval_, this);
  world_thresholds_.assign(static_cast<std::size_t>(size), mpich_default);
  exchange_bindings(rules);
  for (const auto& [pair, distance] : classes) {
    const int peer = pair.first == rank ? pair.second : pair.second == rank ? pair.first : size;
    if (peer < size) world_thresholds_[static_cast<std::size_t>(peer)] = rules.threshold_of(distance);
  }
  world_thresholds_[static_cast<std::size_t>(rank)] = mpich_default;
  return std::any_of(world_thresholds_.begin(), world_thresholds_.end(),
                     [](int bytes) { return bytes != mpich_default; });
}

void Peers::exchange_bindings(const Rules& rules) {
  MPI_Comm world = MPI_COMM_NULL, node = MPI_COMM_NULL;
  MPI_Group group = MPI_GROUP_NULL;
  int size = 0;
  NEARFIELD_PMPI(MPI_Comm_dup)(MPI_COMM_WORLD, &world);
  NEARFIELD_PMPI(MPI_Comm_split_type)(world, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  NEARFIELD_PMPI(MPI_Comm_size)(node, &size);
  NEARFIELD_PMPI(MPI_Comm_group)(node, &group);
  const Cpus own = own_binding();
  std::vector<Cpus> bindings(static_cast<std::size_t>(size));
  NEARFIELD_PMPI(MPI_Allgather)(&own, sizeof own, MPI_BYTE, bindings.data(), sizeof own, MPI_BYTE, node);

  const Hardware hardware = read_hardware(sysfs_root());
  const std::vector<int> ranks = first_ranks(size);
  std::vector<int> in_world(ranks.size());
  NEARFIELD_PMPI(MPI_Group_translate_ranks)(group, size, ranks.data(), world_, in_world.data());
  for (std::size_t i = 0; i < ranks.size(); ++i)
    world_thresholds_[static_cast<std::size_t>(in_world[i])] =
        rules.threshold_of(distance_between(hardware, own, bindings[i]));

  NEARFIELD_PMPI(MPI_Group_free)(&group);
  NEARFIELD_PMPI(MPI_Comm_free)(&node);
  NEARFIELD_PMPI(MPI_Comm_free)(&world);
}

void Peers::select_table(MPI_Comm comm) {
  void* table = nullptr;
  int is_there = 0;
  // If the handle is invalid, the send itself reports the error.
  if (comm == MPI_COMM_NULL || NEARFIELD_PMPI(MPI_Comm_get_attr)(comm, keyval_, &table, &is_there) != MPI_SUCCESS) {
    last_comm_ = MPI_COMM_NULL;
    last_table_ = nullptr;
    return;
  }
  if (!is_there) {
    table = build_table(comm);
    NEARFIELD_PMPI(MPI_Comm_set_attr)(comm, keyval_, table);
  }
  last_comm_ = comm;
  last_table_ = static_cast<Table*>(table);
}

Peers::Table* Peers::build_table(MPI_Comm comm) const {
  int is_inter = 0, size = 0;
  MPI_Group group = MPI_GROUP_NULL;
  NEARFIELD_PMPI(MPI_Comm_test_inter)(comm, &is_inter);
  if (is_inter)
    NEARFIELD_PMPI(MPI_Comm_remote_group)(comm, &group);
  else
    NEARFIELD_PMPI(MPI_Comm_group)(comm, &group);
  NEARFIELD_PMPI(MPI_Group_size)(group, &size);
  const std::vector<int> ranks = first_ranks(size);
  std::vector<int> in_world(ranks.size());
  NEARFIELD_PMPI(MPI_Group_translate_ranks)(group, size, ranks.data(), world_, in_world.data());
  NEARFIELD_PMPI(MPI_Group_free)(&group);

  auto* table = new Table(ranks.size(), mpich_default);
  for (std::size_t i = 0; i < ranks.size(); ++i)
    if (in_world[i] != MPI_UNDEFINED) (*table)[i] = world_thresholds_[static_cast<std::size_t>(in_world[i])];
  return table;
}

int Peers::free_table(MPI_Comm, int, void* table, void* self) {
  auto* peers = static_cast<Peers*>(self);
  if (peers->last_table_ == table) {
    peers->last_comm_ = MPI_COMM_NULL;
    peers->last_table_ = nullptr;
  }
  delete static_cast<Table*>(table);
  return MPI_SUCCESS;
}

void Peers::close() {
  NEARFIELD_PMPI(MPI_Group_free)(&world_);
  NEARFIELD_PMPI(MPI_Comm_free_keyval)(&keyval_);  // tables are freed with their communicators
}

}  // namespace nearfield::tune

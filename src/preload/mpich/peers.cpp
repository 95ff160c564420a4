#include "preload/mpich/peers.hpp"

#include <sched.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <numeric>

#include "preload/mpi/library.hpp"
#include "preload/mpich/distance.hpp"

namespace nearfield::tune {
namespace {

CpuSet own_binding() {
  CpuSet cpus;
  if (sched_getaffinity(0, sizeof cpus, reinterpret_cast<cpu_set_t*>(&cpus)) < 0) cpus.reset();
  return cpus;
}

std::filesystem::path sysfs_root() {
  const char* test_root = std::getenv("NEARFIELD_SYSFS");
  return test_root ? test_root : "/sys";
}

std::vector<int> ranks_up_to(int n) {
  std::vector<int> ranks(static_cast<std::size_t>(n));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

// MPICH stores thresholds as int: `never` and larger numbers become INT_MAX, so longer messages, of more than 2 GiB, are
// copied directly nevertheless. An empty message needs no copy.
int threshold_of_class(const pair_rules& rules, int class_index) {
  if (class_index == DEFAULT_CLASS) return mpich_default;
  return static_cast<int>(std::clamp<std::size_t>(rules.limits[class_index].single_copy_from, 1, INT_MAX));
}

}  // namespace

bool PeerThresholds::initialize(const pair_rules& rules) {
  int rank = 0, size = 0;
  NEARFIELD_PMPI(MPI_Comm_rank)(MPI_COMM_WORLD, &rank);
  NEARFIELD_PMPI(MPI_Comm_size)(MPI_COMM_WORLD, &size);
  NEARFIELD_PMPI(MPI_Comm_group)(MPI_COMM_WORLD, &world_group_);
  NEARFIELD_PMPI(MPI_Comm_create_keyval)(MPI_COMM_NULL_COPY_FN, free_table, &keyval_, this);
  world_thresholds_.assign(static_cast<std::size_t>(size), mpich_default);
  const std::vector<int> distances = measure_distances(size);
  for (int peer = 0; peer < size; ++peer) {
    if (peer == rank) continue;
    const auto index = static_cast<std::size_t>(peer);
    const int class_index =
        class_of_pair(&rules, static_cast<unsigned>(rank), static_cast<unsigned>(peer), distances[index]);
    world_thresholds_[index] = threshold_of_class(rules, class_index);
  }
  return std::any_of(world_thresholds_.begin(), world_thresholds_.end(),
                     [](int bytes) { return bytes != mpich_default; });
}

// Returns the distance of each of the `world_size` world ranks; DEFAULT_CLASS for ranks of other nodes.
std::vector<int> PeerThresholds::measure_distances(int world_size) const {
  MPI_Comm world = MPI_COMM_NULL, node = MPI_COMM_NULL;
  MPI_Group group = MPI_GROUP_NULL;
  int size = 0;
  NEARFIELD_PMPI(MPI_Comm_dup)(MPI_COMM_WORLD, &world);
  NEARFIELD_PMPI(MPI_Comm_split_type)(world, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  NEARFIELD_PMPI(MPI_Comm_size)(node, &size);
  NEARFIELD_PMPI(MPI_Comm_group)(node, &group);
  const CpuSet own_cpus = own_binding();
  std::vector<CpuSet> bindings(static_cast<std::size_t>(size));
  NEARFIELD_PMPI(MPI_Allgather)(&own_cpus, sizeof own_cpus, MPI_BYTE, bindings.data(), sizeof own_cpus, MPI_BYTE, node);

  const SharedHardware hardware = read_shared_hardware(sysfs_root());
  const std::vector<int> ranks = ranks_up_to(size);
  std::vector<int> world_ranks(ranks.size());
  NEARFIELD_PMPI(MPI_Group_translate_ranks)(group, size, ranks.data(), world_group_, world_ranks.data());
  std::vector<int> distances(static_cast<std::size_t>(world_size), DEFAULT_CLASS);
  for (std::size_t i = 0; i < ranks.size(); ++i)
    distances[static_cast<std::size_t>(world_ranks[i])] =
        static_cast<int>(distance_between(hardware, own_cpus, bindings[i]));

  NEARFIELD_PMPI(MPI_Group_free)(&group);
  NEARFIELD_PMPI(MPI_Comm_free)(&node);
  NEARFIELD_PMPI(MPI_Comm_free)(&world);
  return distances;
}

void PeerThresholds::select_table(MPI_Comm comm) {
  void* table = nullptr;
  int is_attached = 0;
  // If the handle is invalid, the send itself reports the error.
  if (comm == MPI_COMM_NULL || NEARFIELD_PMPI(MPI_Comm_get_attr)(comm, keyval_, &table, &is_attached) != MPI_SUCCESS) {
    last_comm_ = MPI_COMM_NULL;
    last_comm_thresholds_ = nullptr;
    return;
  }
  if (!is_attached) {
    table = build_table(comm);
    NEARFIELD_PMPI(MPI_Comm_set_attr)(comm, keyval_, table);
  }
  last_comm_ = comm;
  last_comm_thresholds_ = static_cast<ThresholdTable*>(table);
}

PeerThresholds::ThresholdTable* PeerThresholds::build_table(MPI_Comm comm) const {
  int is_inter = 0, size = 0;
  MPI_Group group = MPI_GROUP_NULL;
  NEARFIELD_PMPI(MPI_Comm_test_inter)(comm, &is_inter);
  if (is_inter)
    NEARFIELD_PMPI(MPI_Comm_remote_group)(comm, &group);
  else
    NEARFIELD_PMPI(MPI_Comm_group)(comm, &group);
  NEARFIELD_PMPI(MPI_Group_size)(group, &size);
  const std::vector<int> ranks = ranks_up_to(size);
  std::vector<int> world_ranks(ranks.size());
  NEARFIELD_PMPI(MPI_Group_translate_ranks)(group, size, ranks.data(), world_group_, world_ranks.data());
  NEARFIELD_PMPI(MPI_Group_free)(&group);

  auto* table = new ThresholdTable(ranks.size(), mpich_default);
  for (std::size_t i = 0; i < ranks.size(); ++i)
    if (world_ranks[i] != MPI_UNDEFINED) (*table)[i] = world_thresholds_[static_cast<std::size_t>(world_ranks[i])];
  return table;
}

int PeerThresholds::free_table(MPI_Comm, int, void* table, void* self) {
  auto* peers = static_cast<PeerThresholds*>(self);
  if (peers->last_comm_thresholds_ == table) {
    peers->last_comm_ = MPI_COMM_NULL;
    peers->last_comm_thresholds_ = nullptr;
  }
  delete static_cast<ThresholdTable*>(table);
  return MPI_SUCCESS;
}

void PeerThresholds::release_mpi_objects() {
  NEARFIELD_PMPI(MPI_Group_free)(&world_group_);
  NEARFIELD_PMPI(MPI_Comm_free_keyval)(&keyval_);  // tables are freed with their communicators
}

}  // namespace nearfield::tune

#include "preload/collectives/job.hpp"

#include <cstdlib>
#include <cstring>
#include <vector>

#include "preload/collectives/settings.hpp"
#include "preload/mpi/handles.hpp"

namespace nearfield::collectives {
namespace {

// Variables that launchers set for each rank: the numbers of the job's ranks and of those on this node.
constexpr struct {
  const char *ranks, *on_this_node;
} rank_variables[] = {
    {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"},  // Open MPI's mpirun, jsrun
    {"PMI_SIZE", "MPI_LOCALNRANKS"},                         // Hydra: MPICH, Intel MPI
    {"PMI_SIZE", "PMI_LOCAL_SIZE"},                          // PALS
    {"MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_SIZE"},    // MVAPICH
};
constexpr const char* node_variables[] = {"SLURM_STEP_NUM_NODES", "FLUX_JOB_NNODES"};  // the number of the job's nodes

bool is_on_one_node() {
  for (const auto& [ranks, on_this_node] : rank_variables) {
    const char *const all = std::getenv(ranks), *const here = std::getenv(on_this_node);
    if (all && here) return std::strcmp(all, here) == 0;
  }
  for (const char* name : node_variables)
    if (const char* const nodes = std::getenv(name)) return std::strcmp(nodes, "1") == 0;
  return false;
}

}  // namespace

bool is_loaded_by_all_ranks() {
  static const bool is_loaded = settings().all_nodes || is_on_one_node();
  return is_loaded;
}

bool is_within_job(MPI_Comm comm) {
  int is_initialized = 0;
  if (PMPI(MPI_Initialized)(&is_initialized) != MPI_SUCCESS) return false;
  if (!is_initialized) return true;  // sessions have the processes of the job alone
  MPI_Group group, world;
  if (PMPI(MPI_Comm_group)(comm, &group) != MPI_SUCCESS) return false;
  int is_within = PMPI(MPI_Comm_group)(MPI_COMM_WORLD, &world) == MPI_SUCCESS;
  if (is_within) {
    int count = 0;
    PMPI(MPI_Group_size)(group, &count);
    std::vector<int> ranks(static_cast<std::size_t>(count)), in_world(ranks);
    for (int i = 0; i < count; ++i) ranks[static_cast<std::size_t>(i)] = i;
    is_within = PMPI(MPI_Group_translate_ranks)(group, count, ranks.data(), world, in_world.data()) == MPI_SUCCESS;
    for (const int rank : in_world) is_within &= rank != MPI_UNDEFINED;
    PMPI(MPI_Group_free)(&world);
  }
  PMPI(MPI_Group_free)(&group);
  return is_within;
}

}  // namespace nearfield::collectives

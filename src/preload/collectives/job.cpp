#include "preload/collectives/job.hpp"

#include <cstdlib>
#include <string>
#include <vector>

#include "preload/collectives/settings.hpp"
#include "preload/mpi/handles.hpp"

namespace nearfield::collectives {
namespace {

// Environment variables that launchers set for each rank: the number of ranks of the job, and of the ranks on this
// node.
constexpr struct {
  const char *ranks, *ranks_on_node;
} rank_variables[] = {
    {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"},  // Open MPI's mpirun, jsrun
    {"PMI_SIZE", "MPI_LOCALNRANKS"},                         // Hydra: MPICH, Intel MPI
    {"PMI_SIZE", "PMI_LOCAL_SIZE"},                          // PALS
    {"MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_SIZE"},    // MVAPICH
};
// Environment variables with the number of ranks and the number of nodes of the job.
constexpr struct {
  const char *ranks, *nodes;
} node_variables[] = {{"SLURM_STEP_NUM_TASKS", "SLURM_STEP_NUM_NODES"}, {"FLUX_JOB_SIZE", "FLUX_JOB_NNODES"}};

bool is_variable_equal_to(const char* variable, int value) {
  const char* const text = std::getenv(variable);
  return text && std::to_string(value) == text;
}

// Returns whether the launcher's variables say that all ranks are on one node. Ignores variables whose number of ranks
// differs from the size of MPI_COMM_WORLD: they belong to another launcher, inside which this job was started.
bool is_job_on_one_node() {
  int is_initialized = 0, ranks = 0;
  if (PMPI(MPI_Initialized)(&is_initialized) != MPI_SUCCESS || !is_initialized) return false;
  PMPI(MPI_Comm_size)(MPI_COMM_WORLD, &ranks);
  for (const auto& [total_ranks, ranks_on_node] : rank_variables)
    if (std::getenv(total_ranks) && std::getenv(ranks_on_node))
      return is_variable_equal_to(total_ranks, ranks) && is_variable_equal_to(ranks_on_node, ranks);
  for (const auto& [total_ranks, nodes] : node_variables)
    if (std::getenv(nodes)) return is_variable_equal_to(total_ranks, ranks) && is_variable_equal_to(nodes, 1);
  return false;
}

}  // namespace

bool is_library_loaded_by_all_ranks() {
  static const bool is_loaded = settings().is_library_on_all_nodes || is_job_on_one_node();
  return is_loaded;
}

bool is_communicator_within_job(MPI_Comm comm) {
  int is_initialized = 0;
  if (PMPI(MPI_Initialized)(&is_initialized) != MPI_SUCCESS) return false;
  if (!is_initialized) return false;  // MPI was started by sessions alone, without MPI_COMM_WORLD
  MPI_Group group, world_group;
  if (PMPI(MPI_Comm_group)(comm, &group) != MPI_SUCCESS) return false;
  int is_within = PMPI(MPI_Comm_group)(MPI_COMM_WORLD, &world_group) == MPI_SUCCESS;
  if (is_within) {
    int count = 0;
    PMPI(MPI_Group_size)(group, &count);
    std::vector<int> ranks(static_cast<std::size_t>(count)), world_ranks(ranks);
    for (int i = 0; i < count; ++i) ranks[static_cast<std::size_t>(i)] = i;
    is_within =
        PMPI(MPI_Group_translate_ranks)(group, count, ranks.data(), world_group, world_ranks.data()) == MPI_SUCCESS;
    for (const int rank : world_ranks) is_within &= rank != MPI_UNDEFINED;
    PMPI(MPI_Group_free)(&world_group);
  }
  PMPI(MPI_Group_free)(&group);
  return is_within;
}

}  // namespace nearfield::collectives

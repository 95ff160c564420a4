// Determines the single-copy threshold of a message to a rank of a communicator. World ranks on other nodes, ranks of
// other worlds (spawned, connected) and this rank itself keep MPICH's default.
//
// Called by one thread at a time, on every rank: initialize() once after MPI_Init, collectively; threshold_of() before
// each send; release_mpi_objects() before MPI_Finalize.
#pragma once

#include <mpi.h>

#include <vector>

#include "preload/mpich/thresholds.hpp"
#include "preload/pair_rules/pair_rules.h"

namespace nearfield::tune {

class PeerThresholds {
 public:
  // Exchanges the ranks' CPU masks inside each node; later changes of a mask are not noticed. Returns whether a rule
  // applies to any peer of this rank. Collective over MPI_COMM_WORLD.
  bool initialize(const pair_rules& rules);

  // Returns the threshold in bytes of a message to `destination`; mpich_default if no rule applies. The first call for
  // a communicator builds its table, which is freed with the communicator.
  int threshold_of(MPI_Comm comm, int destination) {
    if (comm != last_comm_) select_table(comm);
    const auto index = static_cast<std::size_t>(destination);  // MPI_PROC_NULL is negative, hence beyond the end
    return last_comm_thresholds_ && index < last_comm_thresholds_->size() ? (*last_comm_thresholds_)[index]
                                                                          : mpich_default;
  }

  void release_mpi_objects();

 private:
  using ThresholdTable = std::vector<int>;  // thresholds by rank in the communicator's group of destinations

  static int free_table(MPI_Comm comm, int keyval, void* table, void* self);

  std::vector<int> measure_distances(int world_size) const;
  void select_table(MPI_Comm comm);
  ThresholdTable* build_table(MPI_Comm comm) const;

  ThresholdTable world_thresholds_;
  MPI_Group world_group_ = MPI_GROUP_NULL;
  int keyval_ = MPI_KEYVAL_INVALID;
  MPI_Comm last_comm_ = MPI_COMM_NULL;
  ThresholdTable* last_comm_thresholds_ = nullptr;
};

}  // namespace nearfield::tune

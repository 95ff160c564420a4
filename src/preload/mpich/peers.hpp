// Determines the threshold of a message to a rank of a communicator. World ranks on other nodes, ranks of other worlds
// (spawned, connected) and this rank itself keep MPICH's default.
//
// Called by one thread at a time, on every rank: open() once after MPI_Init and collectively, of() before each send,
// close() before MPI_Finalize.
#pragma once

#include <mpi.h>

#include <vector>

#include "preload/mpich/rules.hpp"

namespace nearfield::tune {

class Peers {
 public:
  // Exchanges bindings among the ranks of a node; later bindings are not seen. Returns true if there is a rule for a
  // peer. Collective over MPI_COMM_WORLD.
  bool open(const Rules& rules, const std::map<std::pair<int, int>, Distance>& classes);

  // The first call for a communicator builds its table, which is freed with the communicator.
  int of(MPI_Comm comm, int destination) {
    if (comm != last_comm_) look_up(comm);
    const auto index = static_cast<std::size_t>(destination);  // MPI_PROC_NULL is negative, hence beyond the end
    return last_table_ && index < last_table_->size() ? (*last_table_)[index] : mpich_default;
  }

  void close();

 private:
  using Table = std::vector<int>;  // by rank in the communicator's group of destinations

  static int forget(MPI_Comm comm, int keyval, void* table, void* self);

  void take_bindings(const Rules& rules);
  void look_up(MPI_Comm comm);
  Table* build(MPI_Comm comm) const;

  Table of_world_;
  MPI_Group world_ = MPI_GROUP_NULL;
  int keyval_ = MPI_KEYVAL_INVALID;
  MPI_Comm last_comm_ = MPI_COMM_NULL;
  Table* last_table_ = nullptr;
};

}  // namespace nearfield::tune

// MPICH's single-copy thresholds of this process, through the MPI tool interface. They are global and read by the
// sender at each send. Leaves out a program that writes them itself meanwhile: its value is overwritten at the next
// send to another class of peer.
#pragma once

#include <mpi.h>

#include "tune/mpich/rules.hpp"

namespace nearfield::tune {

class Thresholds {
 public:
  // Is called after MPI_Init. Returns false if this MPICH has none (before 4.3; built without CMA).
  bool open();

  // Sets all to `bytes`, or for `stock` to the values that open() found. Calls MPI only if that changes something.
  void set(int bytes) {
    if (bytes != current_) write(bytes);
  }

  // Is called before MPI_Finalize; restores the values that open() found.
  void close();

 private:
  struct Variable {
    MPI_T_cvar_handle handle = MPI_T_CVAR_HANDLE_NULL;
    int found = 0;
  };

  bool open(const char* name, Variable& variable);
  void write(int bytes);

  Variable cma_, xpmem_;
  decltype(&MPI_T_cvar_write) cvar_write_ = nullptr;
  int current_ = stock;
};

}  // namespace nearfield::tune

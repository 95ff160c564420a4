// Writes MPICH's single-copy thresholds of this process, through the MPI tool interface (MPI_T). The thresholds are
// global in a process, and MPICH reads them at each send. Programs that write them as well are not supported: the value
// is overwritten at the next send to a peer with another threshold.
#pragma once

#include <mpi.h>

#include "preload/mpich/rules.hpp"

namespace nearfield::tune {

class Thresholds {
 public:
  // Called after MPI_Init. Returns false if this MPICH has no such thresholds (before 4.3; built without CMA).
  bool open();

  // Sets all thresholds to `bytes`, or for `mpich_default` to the values that open() has read. Calls MPI only if
  // `bytes` differs from the last call.
  void set(int bytes) {
    if (bytes != current_) write(bytes);
  }

  // Called before MPI_Finalize: restores the values that open() has read.
  void close();

 private:
  struct Variable {
    MPI_T_cvar_handle handle = MPI_T_CVAR_HANDLE_NULL;
    int initial = 0;
  };

  bool open(const char* name, Variable& variable);
  void write(int bytes);

  Variable cma_, xpmem_;
  decltype(&MPI_T_cvar_write) cvar_write_ = nullptr;
  int current_ = mpich_default;
};

}  // namespace nearfield::tune

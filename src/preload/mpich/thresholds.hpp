// Writes MPICH's single-copy thresholds of this process, through the MPI tool interface (MPI_T). The thresholds are
// global in a process, and MPICH reads them at each send. Programs that write them as well are not supported: the value
// is overwritten at the next send to a peer with another threshold.
#pragma once

#include <mpi.h>

#include <cstddef>  // MPI_T_CVAR_HANDLE_NULL uses NULL

namespace nearfield::tune {

// The threshold of a pair without a rule: MPICH's own applies.
inline constexpr int mpich_default = -1;

class MpichThresholds {
 public:
  // Called after MPI_Init. Returns false if this MPICH has no such thresholds (before 4.3; built without CMA).
  bool open_variables();

  // Sets all thresholds to `bytes`, or for `mpich_default` to the values that open_variables() has read. Calls MPI only
  // if `bytes` differs from the last call.
  void set_all_bytes(int bytes) {
    if (bytes != current_bytes_) write_variables(bytes);
  }

  // Called before MPI_Finalize: restores the values that open_variables() has read.
  void restore_and_close();

 private:
  struct ControlVariable {
    MPI_T_cvar_handle handle = MPI_T_CVAR_HANDLE_NULL;
    int original_value = 0;
  };

  bool open_variable(const char* name, ControlVariable& variable);
  void write_variables(int bytes);

  ControlVariable cma_, xpmem_;
  decltype(&MPI_T_cvar_write) cvar_write_ = nullptr;
  int current_bytes_ = mpich_default;
};

}  // namespace nearfield::tune

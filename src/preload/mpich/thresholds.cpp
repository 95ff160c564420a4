#include "preload/mpich/thresholds.hpp"

#include <initializer_list>

#include "preload/mpi/library.hpp"

namespace nearfield::tune {
namespace {

constexpr const char* cma_name = "MPIR_CVAR_CH4_IPC_CMA_P2P_THRESHOLD";
constexpr const char* xpmem_name = "MPIR_CVAR_CH4_IPC_XPMEM_P2P_THRESHOLD";

// Returns whether a control variable is an int that is not bound to an MPI object.
bool is_plain_int(int index) {
  int name_length = 0, verbosity = 0, description_length = 0, binding = 0, scope = 0;
  MPI_Datatype type = MPI_DATATYPE_NULL;
  return NEARFIELD_PMPI(MPI_T_cvar_get_info)(index, nullptr, &name_length, &verbosity, &type, nullptr, nullptr,
                                             &description_length, &binding, &scope) == MPI_SUCCESS &&
         type == MPI_INT && binding == MPI_T_BIND_NO_OBJECT;
}

}  // namespace

bool MpichThresholds::open_variables() {
  int provided = 0;
  if (NEARFIELD_PMPI(MPI_T_init_thread)(MPI_THREAD_SINGLE, &provided) != MPI_SUCCESS) return false;
  cvar_write_ = NEARFIELD_PMPI(MPI_T_cvar_write);
  if (open_variable(cma_name, cma_)) {
    open_variable(xpmem_name, xpmem_);
    return true;
  }
  NEARFIELD_PMPI(MPI_T_finalize)();
  return false;
}

bool MpichThresholds::open_variable(const char* name, ControlVariable& variable) {
  int index = 0, count = 0;
  if (NEARFIELD_PMPI(MPI_T_cvar_get_index)(name, &index) != MPI_SUCCESS || !is_plain_int(index)) return false;
  if (NEARFIELD_PMPI(MPI_T_cvar_handle_alloc)(index, nullptr, &variable.handle, &count) != MPI_SUCCESS) return false;
  if (count == 1 && NEARFIELD_PMPI(MPI_T_cvar_read)(variable.handle, &variable.original_value) == MPI_SUCCESS)
    return true;
  NEARFIELD_PMPI(MPI_T_cvar_handle_free)(&variable.handle);
  variable.handle = MPI_T_CVAR_HANDLE_NULL;  // a variable whose value could not be read is not written
  return false;
}

void MpichThresholds::write_variables(int bytes) {
  for (ControlVariable* variable : {&cma_, &xpmem_}) {
    const int value = bytes == mpich_default ? variable->original_value : bytes;
    if (variable->handle != MPI_T_CVAR_HANDLE_NULL) cvar_write_(variable->handle, &value);
  }
  current_bytes_ = bytes;
}

void MpichThresholds::restore_and_close() {
  set_all_bytes(mpich_default);
  for (ControlVariable* variable : {&cma_, &xpmem_})
    if (variable->handle != MPI_T_CVAR_HANDLE_NULL) NEARFIELD_PMPI(MPI_T_cvar_handle_free)(&variable->handle);
  NEARFIELD_PMPI(MPI_T_finalize)();
}

}  // namespace nearfield::tune

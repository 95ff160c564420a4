#include "preload/mpich/thresholds.hpp"

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

bool Thresholds::open() {
  int provided = 0;
  if (NEARFIELD_PMPI(MPI_T_init_thread)(MPI_THREAD_SINGLE, &provided) != MPI_SUCCESS) return false;
  cvar_write_ = NEARFIELD_PMPI(MPI_T_cvar_write);
  if (open(cma_name, cma_)) {
    open(xpmem_name, xpmem_);
    return true;
  }
  NEARFIELD_PMPI(MPI_T_finalize)();
  return false;
}

bool Thresholds::open(const char* name, Variable& variable) {
  int index = 0, count = 0;
  if (NEARFIELD_PMPI(MPI_T_cvar_get_index)(name, &index) != MPI_SUCCESS || !is_plain_int(index)) return false;
  if (NEARFIELD_PMPI(MPI_T_cvar_handle_alloc)(index, nullptr, &variable.handle, &count) != MPI_SUCCESS) return false;
  if (count == 1 && NEARFIELD_PMPI(MPI_T_cvar_read)(variable.handle, &variable.initial) == MPI_SUCCESS) return true;
  NEARFIELD_PMPI(MPI_T_cvar_handle_free)(&variable.handle);
  variable.handle = MPI_T_CVAR_HANDLE_NULL;  // a variable whose value could not be read is not written
  return false;
}

void Thresholds::write(int bytes) {
  for (Variable* variable : {&cma_, &xpmem_}) {
    const int value = bytes == mpich_default ? variable->initial : bytes;
    if (variable->handle != MPI_T_CVAR_HANDLE_NULL) cvar_write_(variable->handle, &value);
  }
  current_ = bytes;
}

void Thresholds::close() {
  set(mpich_default);
  for (Variable* variable : {&cma_, &xpmem_})
    if (variable->handle != MPI_T_CVAR_HANDLE_NULL) NEARFIELD_PMPI(MPI_T_cvar_handle_free)(&variable->handle);
  NEARFIELD_PMPI(MPI_T_finalize)();
}

}  // namespace nearfield::tune

// The MPI library's functions and predefined handles, looked up on first use: for libraries that are preloaded before
// the MPI library is loaded.
#pragma once

#include <mpi.h>

#include "preload/mpi/library.hpp"

// Open MPI's predefined handles are addresses of variables in its library, which is loaded after this one.
#ifdef OPEN_MPI
#undef OMPI_PREDEFINED_GLOBAL
#define OMPI_PREDEFINED_GLOBAL(type, name) \
  static_cast<type>(::nearfield::find_once([] { return ::nearfield::find_mpi_variable(#name); }))
#endif

// The MPI library's definition of a function under its PMPI_ name, looked up on first use.
#define PMPI(name)         \
  (::nearfield::find_once( \
      [] { return reinterpret_cast<decltype(&name)>(::nearfield::find_next_or_abort("P" #name, "P" #name)); }))

namespace nearfield {

// Returns whether this library was compiled for the ABI of the loaded MPI library: whether handles and constants agree.
inline bool is_built_for_loaded_mpi() {
#ifdef OPEN_MPI
  constexpr bool built_for_openmpi = true;
#else
  constexpr bool built_for_openmpi = false;
#endif
  if (__builtin_strstr(library_path_of(find_mpi_function("PMPI_Init")), "libmpi_abi")) return false;
  return (find_mpi_variable("ompi_mpi_comm_world") != nullptr) == built_for_openmpi;
}

}  // namespace nearfield

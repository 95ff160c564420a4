// Macros for wrappers of MPI functions in preloaded libraries. A wrapper interposes on both names, MPI_ and PMPI_,
// because Fortran's bindings, which are separate libraries, call either, and a profiling tool that is linked into the
// program calls PMPI_. The next definition of the function is looked up on the wrapper's first call (library.hpp).
#pragma once

#include "base/export.h"
#include "preload/mpi/library.hpp"

// Exports the MPI function `name`, which the including file defines, under its PMPI_ name, too.
#define NEARFIELD_EXPORT_PMPI(name) \
  extern "C" __attribute__((visibility("default"), alias(#name))) decltype(name) P##name;

// Defines `next`, the definition of `name` after this library's: another preloaded tool's or the MPI's.
#define NEARFIELD_NEXT(name) \
  static const auto next = reinterpret_cast<decltype(&name)>(nearfield::find_next_or_abort(#name, "P" #name))

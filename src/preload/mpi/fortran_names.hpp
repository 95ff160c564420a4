// Wraps the Fortran names of MPI functions, to record the program's call site. In all MPIs the Fortran bindings are
// separate libraries that call the C functions under their MPI_ or PMPI_ names, and so this library's wrappers of
// these; in those wrappers, the call site would be a location in the bindings.
//
// Programs that `use mpi` or include mpif.h call `mpi_send_`, since compilers append one underscore. Programs that `use
// mpi_f08` call `mpi_send_f08_` in Open MPI, and in MPICH and its derivatives `mpi_send_f08ts_` if an argument is a
// buffer. All arguments are addresses or text lengths. A wrapper always passes on 15 arguments unchanged, at least as
// many as any function has.
#pragma once

#include <cstdint>

#include "preload/mpi/library.hpp"

namespace nearfield {

// While a CallSiteScope exists, the thread-local `slot` holds the call site of the outermost Fortran function on the
// stack; null if there is none.
class CallSiteScope {
 public:
  CallSiteScope(const void*& slot, const void* site) : slot_(slot), is_outermost_(!slot) {
    if (is_outermost_) slot_ = site;
  }
  ~CallSiteScope() {
    if (is_outermost_) slot_ = nullptr;
  }
  CallSiteScope(const CallSiteScope&) = delete;

 private:
  const void*& slot_;
  const bool is_outermost_;
};

}  // namespace nearfield

#define NEARFIELD_WRAP_FORTRAN_NAME(name, slot)                                                             \
  extern "C" __attribute__((visibility("default"))) void name(                                              \
      std::intptr_t a, std::intptr_t b, std::intptr_t c, std::intptr_t d, std::intptr_t e, std::intptr_t f, \
      std::intptr_t g, std::intptr_t h, std::intptr_t i, std::intptr_t j, std::intptr_t k, std::intptr_t l, \
      std::intptr_t m, std::intptr_t n, std::intptr_t o) {                                                  \
    const auto next_definition = nearfield::find_once(                                                      \
        [] { return reinterpret_cast<decltype(&name)>(nearfield::find_next_or_abort(#name, "p" #name)); }); \
    const nearfield::CallSiteScope scope(slot, __builtin_return_address(0));                                \
    next_definition(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o);                                           \
  }

#define NEARFIELD_WRAP_FORTRAN(name, slot)             \
  NEARFIELD_WRAP_FORTRAN_NAME(mpi_##name##_, slot)     \
  NEARFIELD_WRAP_FORTRAN_NAME(mpi_##name##_f08_, slot) \
  NEARFIELD_WRAP_FORTRAN_NAME(mpi_##name##_f08ts_, slot)

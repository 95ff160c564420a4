// Fortran names of MPI functions. In all MPIs the Fortran bindings are separate libraries that call the C functions,
// and so their wrappers, under MPI_ or PMPI_ names. The functions defined here only record the program's call site,
// where the wrappers would see a location in the bindings.
//
// `mpi_send_` is called with `use mpi` and mpif.h, for which compilers append one underscore; mpi_f08 calls
// `mpi_send_f08_` in Open MPI, and in MPICH and its derivatives `mpi_send_f08ts_` if an argument is a buffer. All
// arguments are addresses or text lengths: they are passed on unchanged, always 15, which is at least as many as there
// are.
#pragma once

#include <cstdint>

#include "preload/mpi/library.hpp"

namespace nearfield {

// Lives as long as the program is inside a Fortran function. `slot` is thread-local; null: no such function is running.
class CalledFrom {
 public:
  CalledFrom(const void*& slot, const void* site) : slot_(slot), is_outermost_(!slot) {
    if (is_outermost_) slot_ = site;
  }
  ~CalledFrom() {
    if (is_outermost_) slot_ = nullptr;
  }
  CalledFrom(const CalledFrom&) = delete;

 private:
  const void*& slot_;
  const bool is_outermost_;
};

}  // namespace nearfield

#define NEARFIELD_NOTES(name, slot)                                                                         \
  extern "C" __attribute__((visibility("default"))) void name(                                              \
      std::intptr_t a, std::intptr_t b, std::intptr_t c, std::intptr_t d, std::intptr_t e, std::intptr_t f, \
      std::intptr_t g, std::intptr_t h, std::intptr_t i, std::intptr_t j, std::intptr_t k, std::intptr_t l, \
      std::intptr_t m, std::intptr_t n, std::intptr_t o) {                                                  \
    const auto own = nearfield::find_once(                                                                  \
        [] { return reinterpret_cast<decltype(&name)>(nearfield::next_or_abort(#name, "p" #name)); });      \
    const nearfield::CalledFrom from(slot, __builtin_return_address(0));                                    \
    own(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o);                                                       \
  }

#define NEARFIELD_NOTES_FORTRAN(name, slot) \
  NEARFIELD_NOTES(mpi_##name##_, slot)      \
  NEARFIELD_NOTES(mpi_##name##_f08_, slot)  \
  NEARFIELD_NOTES(mpi_##name##_f08ts_, slot)

// Looks up the MPI library's functions on first use, never at load time: most processes into which a library is
// preloaded are not MPI programs. Also finds an MPI that the program loaded by dlopen with local scope (Python
// extension modules), which dlsym(RTLD_NEXT) does not search.
#pragma once

namespace nearfield {

// Returns the function; null if no loaded library defines it.
void* find_mpi_function(const char* name);

// Returns the variable; in the executable if the compiler made a copy of the library's there; null if there is none.
void* find_mpi_variable(const char* name);

// Returns the full path of the loaded library that contains this function, or "".
const char* library_of(void* function);

// Returns the next tool's or the library's own function; `pmpi_name` if no MPI_ name follows ours. Ends the process if
// there is none: the program has called a function that its MPI does not have.
void* next_or_abort(const char* name, const char* pmpi_name);

// Returns the pointer that find() returns. Each place in the program calls find() once, or once in each of several
// threads at the same time. Requires no lock and, unlike a static variable of a function, no C++ library.
template <class Find>
auto find_once(Find find) {
  static decltype(find()) known = nullptr;
  auto found = __atomic_load_n(&known, __ATOMIC_RELAXED);
  if (!found) __atomic_store_n(&known, found = find(), __ATOMIC_RELAXED);
  return found;
}

}  // namespace nearfield

// The profiling name of an MPI function, with its own type; for files that include mpi.h. MPI must be initialised.
#define NEARFIELD_PMPI(name) (reinterpret_cast<decltype(&P##name)>(::nearfield::next_or_abort("P" #name, "P" #name)))

// Looks up the MPI library's functions on first use, never at load time, because most processes into which a library is
// preloaded are not MPI programs. Also finds an MPI that the program has loaded by dlopen() with local scope (Python
// extension modules), which dlsym(RTLD_NEXT) does not search.
#pragma once

namespace nearfield {

// Returns the next definition of a function after this library's; null if no loaded library defines it.
void* find_mpi_function(const char* name);

// Returns the address of a variable, that of the executable's copy (copy relocation) if there is one; null if no loaded
// library defines the variable.
void* find_mpi_variable(const char* name);

// Returns the full path of the loaded library that contains this function, or "".
const char* library_path_of(void* function);

// Returns the next definition of the function `name` after that of this library, in a tool or in the MPI library; if
// there is none, the next definition of `pmpi_name`. Aborts if there is none either: the program has called a function
// that its MPI does not have.
void* find_next_or_abort(const char* name, const char* pmpi_name);

// Returns the pointer that find() returns, and stores it for later calls from the same place in the source: there,
// find() runs once, or once in each of several concurrent threads. Requires no lock and, unlike a static variable with
// an initializer, no C++ library.
template <class Find>
auto find_once(Find find) {
  static decltype(find()) cached_pointer = nullptr;
  auto found = __atomic_load_n(&cached_pointer, __ATOMIC_RELAXED);
  if (!found) __atomic_store_n(&cached_pointer, found = find(), __ATOMIC_RELAXED);
  return found;
}

}  // namespace nearfield

// The definition of an MPI function under its PMPI_ name, with the function's type; for files that include mpi.h. MPI
// must be initialised.
#define NEARFIELD_PMPI(name) \
  (reinterpret_cast<decltype(&P##name)>(::nearfield::find_next_or_abort("P" #name, "P" #name)))

// Finds the MPI library's functions when they are first needed, never at load time: most processes that a preloaded
// library gets into are no MPI programs. Also where the program got its MPI through dlopen with local scope (Python's
// extension modules), where dlsym(RTLD_NEXT) does not look.
#pragma once

namespace nearfield {

// Returns the function; null if no loaded library has it.
void* find_mpi_function(const char* name);

// Returns the variable, which the executable has where the compiler made it a copy of the library's; null if there is
// none.
void* find_mpi_variable(const char* name);

// Returns the whole path of the loaded library that has this function, or "".
const char* library_of(void* function);

// Returns the next tool's or the library's own function; `pmpi_name` if no MPI_ name follows ours. Ends the process if
// there is none: the program called a function that its MPI does not have.
void* next_or_abort(const char* name, const char* pmpi_name);

// Returns the pointer that find() returns, which each place of the program calls once, or once in each of several threads
// at the same time. Needs no lock and, unlike a static variable of a function, no C++ library.
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

#include "preload/mpi/library.hpp"

#include <dlfcn.h>
#include <link.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace nearfield {
namespace {

// Callback of dl_iterate_phdr: stops at the first library named libmpi* that defines PMPI_Init, and returns its handle
// in `result`.
int open_if_mpi(dl_phdr_info* object, std::size_t, void* result) {
  const char* slash = object->dlpi_name ? std::strrchr(object->dlpi_name, '/') : nullptr;
  if (!slash || std::strncmp(slash, "/libmpi", 7) != 0) return 0;
  void* handle = dlopen(object->dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
  if (!handle || !dlsym(handle, "PMPI_Init")) return 0;
  *static_cast<void**>(result) = handle;
  return 1;
}

void* find_locally_loaded_mpi() {
  static void* handle = nullptr;
  if (!handle) dl_iterate_phdr(open_if_mpi, &handle);
  return handle;
}

}  // namespace

void* find_mpi_function(const char* name) {
  if (void* symbol = dlsym(RTLD_NEXT, name)) return symbol;
  return find_locally_loaded_mpi() ? dlsym(find_locally_loaded_mpi(), name) : nullptr;
}

void* find_mpi_variable(const char* name) {
  void* const symbol = dlsym(RTLD_DEFAULT, name);
  return symbol ? symbol : find_mpi_function(name);
}

const char* library_path_of(void* function) {
  Dl_info info;
  return function && dladdr(function, &info) && info.dli_fname ? info.dli_fname : "";
}

void* find_next_or_abort(const char* name, const char* pmpi_name) {
  if (void* symbol = find_mpi_function(name)) return symbol;
  if (void* symbol = find_mpi_function(pmpi_name)) return symbol;
  std::fprintf(stderr, "nearfield: %s was called but no MPI library is loaded that has it\n", name);
  std::abort();
}

}  // namespace nearfield

#include "preload/heap/mpi_library.hpp"

#include <dlfcn.h>
#include <link.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace nearfield::heap {
namespace {

struct LibrarySearch {
  const char* name_prefix;
  char path[512];
};

// Callback of dl_iterate_phdr: copies the path of the first library whose name matches. The caller opens the library
// later, because the loader is locked during the callback.
int find_library_path(dl_phdr_info* object, std::size_t, void* search_pointer) {
  auto* search = static_cast<LibrarySearch*>(search_pointer);
  const char* slash = object->dlpi_name ? std::strrchr(object->dlpi_name, '/') : nullptr;
  if (!slash || std::strlen(object->dlpi_name) >= sizeof search->path) return 0;
  if (std::strncmp(slash + 1, search->name_prefix, std::strlen(search->name_prefix)) != 0) return 0;
  std::strcpy(search->path, object->dlpi_name);
  return 1;
}

}  // namespace

void* find_library_symbol(const char* library, const char* name) {
  LibrarySearch search{library, {}};
  if (!dl_iterate_phdr(find_library_path, &search)) return nullptr;
  void* handle = dlopen(search.path, RTLD_LAZY | RTLD_NOLOAD);
  if (!handle) return nullptr;
  void* address = dlsym(handle, name);
  dlclose(handle);  // remains loaded for its users
  return address;
}

void* next_mpi_function(const char* name) {
  if (void* address = dlsym(RTLD_NEXT, name)) return address;
  if (void* address = find_library_symbol("libmpi.", name)) return address;
  if (void* address = find_library_symbol("libmpich.", name)) return address;  // Debian's MPICH
  return find_library_symbol("libmpi", name);  // libmpi_ibm.so, or a library that depends on the MPI: libmpi_cxx.so
}

int world_size() {
  constexpr std::intptr_t mpich_world = 0x44000000;                  // MPI_COMM_WORLD in MPICH's ABI
  void* openmpi_world = dlsym(RTLD_DEFAULT, "ompi_mpi_comm_world");  // the executable's copy if there is one
  if (!openmpi_world) openmpi_world = find_library_symbol("libmpi.", "ompi_mpi_comm_world");
  void* const comm_size = next_mpi_function("PMPI_Comm_size");
  if (!comm_size || !(openmpi_world || next_mpi_function("MPIR_Dup_fn"))) return 0;
  const auto world = openmpi_world ? reinterpret_cast<std::intptr_t>(openmpi_world) : mpich_world;
  int size = 0;
  const int error = reinterpret_cast<int (*)(std::intptr_t, int*)>(comm_size)(world, &size);
  return error == 0 ? size : 0;
}

}  // namespace nearfield::heap

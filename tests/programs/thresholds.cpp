// The shim's thresholds on a made-up tool interface, in which one variable cannot be read: thresholds cma|xpmem|none.
// Says what is written, and how many handles are never freed.
#include "preload/mpich/thresholds.hpp"

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <set>
#include <string>

#include "preload/mpi/library.hpp"

namespace {

const char* names[] = {"cma", "xpmem"};
std::string unreadable;
std::set<std::intptr_t> handles;  // a variable's number and 1

const char* name_of(MPI_T_cvar_handle handle) { return names[reinterpret_cast<std::intptr_t>(handle) - 1]; }

int init_thread(int, int* provided) { return *provided = MPI_THREAD_SINGLE, MPI_SUCCESS; }

int get_index(const char* name, int* index) {
  *index = std::strstr(name, "XPMEM") ? 1 : 0;
  return MPI_SUCCESS;
}

int get_info(int, char*, int*, int*, MPI_Datatype* type, MPI_T_enum*, char*, int*, int* binding, int*) {
  *type = MPI_INT;
  *binding = MPI_T_BIND_NO_OBJECT;
  return MPI_SUCCESS;
}

int handle_alloc(int index, void*, MPI_T_cvar_handle* handle, int* count) {
  *handle = reinterpret_cast<MPI_T_cvar_handle>(static_cast<std::intptr_t>(index) + 1);
  *count = 1;
  handles.insert(index + 1);
  return MPI_SUCCESS;
}

int handle_free(MPI_T_cvar_handle* handle) {
  handles.erase(reinterpret_cast<std::intptr_t>(*handle));
  return MPI_SUCCESS;
}

int read(MPI_T_cvar_handle handle, void* value) {
  if (name_of(handle) == unreadable) return MPI_ERR_OTHER;
  *static_cast<int*>(value) = 4096;
  return MPI_SUCCESS;
}

int write(MPI_T_cvar_handle handle, const void* value) {
  std::printf("%s %d\n", name_of(handle), *static_cast<const int*>(value));
  return MPI_SUCCESS;
}

int finalize() { return MPI_SUCCESS; }

template <class Function>
void* at(Function* function) {
  return reinterpret_cast<void*>(function);
}

}  // namespace

void* nearfield::find_next_or_abort(const char* name, const char*) {
  const std::string function = name + std::strlen("PMPI_T_");
  if (function == "init_thread") return at(init_thread);
  if (function == "cvar_get_index") return at(get_index);
  if (function == "cvar_get_info") return at(get_info);
  if (function == "cvar_handle_alloc") return at(handle_alloc);
  if (function == "cvar_handle_free") return at(handle_free);
  if (function == "cvar_read") return at(read);
  if (function == "cvar_write") return at(write);
  return at(finalize);
}

int main(int argc, char** argv) {
  unreadable = argc > 1 ? argv[1] : "none";
  nearfield::tune::MpichThresholds thresholds;
  if (thresholds.open_variables()) {
    thresholds.set_all_bytes(1000);
    thresholds.restore_and_close();
  } else {
    std::puts("unavailable");
  }
  std::printf("%zu left\n", handles.size());
}

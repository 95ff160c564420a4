#include "probe/mpi_variables.hpp"

#include <mpi.h>

#include <algorithm>
#include <cctype>
#include <optional>

namespace nearfield::probe {
namespace {

bool is_threshold_name(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const char* word : {"eager_limit", "eager_max", "threshold", "cell_size", "max_send_size", "pack_buffer_size",
                           "max_inline", "fbox_size", "get_limit", "rdma_pipeline", "memcpy_limit"})
    if (name.find(word) != std::string::npos) return true;
  return false;
}

template <class T>
std::optional<std::int64_t> read_variable_as(MPI_T_cvar_handle handle) {
  T value{};
  if (MPI_T_cvar_read(handle, &value) != MPI_SUCCESS) return std::nullopt;
  return static_cast<std::int64_t>(value);
}

std::optional<std::int64_t> read_variable(int index, MPI_Datatype type) {
  MPI_T_cvar_handle handle;
  int count = 0;
  if (MPI_T_cvar_handle_alloc(index, nullptr, &handle, &count) != MPI_SUCCESS) return std::nullopt;
  std::optional<std::int64_t> value;
  if (count == 1) {
    if (type == MPI_INT) value = read_variable_as<int>(handle);
    if (type == MPI_UNSIGNED) value = read_variable_as<unsigned>(handle);
    if (type == MPI_UNSIGNED_LONG) value = read_variable_as<unsigned long>(handle);
    if (type == MPI_UNSIGNED_LONG_LONG) value = read_variable_as<unsigned long long>(handle);
  }
  MPI_T_cvar_handle_free(&handle);
  return value;
}

}  // namespace

std::map<std::string, std::int64_t> read_mpi_thresholds() {
  std::map<std::string, std::int64_t> values;
  int provided = 0, count = 0;
  if (MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) != MPI_SUCCESS) return values;
  MPI_T_cvar_get_num(&count);
  for (int i = 0; i < count; ++i) {
    char name[256] = "";
    int length = sizeof name, verbosity = 0, bind = 0, scope = 0;
    MPI_Datatype type = MPI_DATATYPE_NULL;
    MPI_T_enum choices;
    if (MPI_T_cvar_get_info(i, name, &length, &verbosity, &type, &choices, nullptr, nullptr, &bind, &scope) !=
            MPI_SUCCESS ||
        bind != MPI_T_BIND_NO_OBJECT || !is_threshold_name(name))
      continue;
    if (const auto value = read_variable(i, type)) values[name] = *value;
  }
  MPI_T_finalize();
  return values;
}

}  // namespace nearfield::probe

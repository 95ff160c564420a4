#include "preload/observe/objects.hpp"

#include <link.h>
#include <unistd.h>

#include "preload/observe/process_stream.hpp"

namespace nearfield::observe {
namespace {

struct ObjectSearch {
  std::uint64_t code_address;
  LoadedObject object{};
};

int find_object(dl_phdr_info* info, std::size_t, void* pointer) {
  auto& search = *static_cast<ObjectSearch*>(pointer);
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD || !(segment.p_flags & PF_X)) continue;
    const std::uint64_t begin = info->dlpi_addr + segment.p_vaddr;
    if (search.code_address < begin || search.code_address > begin + segment.p_memsz) continue;
    search.object = {begin, begin + segment.p_memsz, info->dlpi_addr, info->dlpi_name};
    return 1;
  }
  return 0;
}

// Returns the path of the executable, for which dl_iterate_phdr reports an empty name.
const char* executable_path() {
  static char path[4096];
  const auto length = readlink("/proc/self/exe", path, sizeof path - 1);
  if (length > 0) path[length] = 0;
  return path;
}

}  // namespace

LoadedObject platform::object_at(std::uint64_t code_address) {
  ObjectSearch search{code_address};
  dl_iterate_phdr(find_object, &search);
  if (search.object.end == 0) search.object.begin = search.object.end = code_address;
  if (!*search.object.path) search.object.path = executable_path();
  return search.object;
}

std::uint64_t executable_base() {
  std::uint64_t base = 0;
  const auto store_load_bias = [](dl_phdr_info* info, std::size_t, void* pointer) {
    *static_cast<std::uint64_t*>(pointer) = info->dlpi_addr;
    return 1;
  };
  dl_iterate_phdr(store_load_bias, &base);
  return base;
}

}  // namespace nearfield::observe

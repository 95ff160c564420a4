#include "preload/observe/objects.hpp"

#include <link.h>
#include <unistd.h>

#include "preload/observe/process_stream.hpp"

namespace nearfield::observe {
namespace {

struct ObjectSearch {
  std::uint64_t code;
  Object object{};
};

int find_object(dl_phdr_info* info, std::size_t, void* what) {
  auto& search = *static_cast<ObjectSearch*>(what);
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& part = info->dlpi_phdr[i];
    if (part.p_type != PT_LOAD || !(part.p_flags & PF_X)) continue;
    const std::uint64_t begin = info->dlpi_addr + part.p_vaddr;
    if (search.code < begin || search.code > begin + part.p_memsz) continue;
    search.object = {begin, begin + part.p_memsz, info->dlpi_addr, info->dlpi_name};
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

Object platform::object_at(std::uint64_t code) {
  ObjectSearch search{code};
  dl_iterate_phdr(find_object, &search);
  if (search.object.end == 0) search.object.begin = search.object.end = code;
  if (!*search.object.path) search.object.path = executable_path();
  return search.object;
}

std::uint64_t executable_base() {
  std::uint64_t base = 0;
  const auto first = [](dl_phdr_info* info, std::size_t, void* what) {
    *static_cast<std::uint64_t*>(what) = info->dlpi_addr;
    return 1;
  };
  dl_iterate_phdr(first, &base);
  return base;
}

}  // namespace nearfield::observe

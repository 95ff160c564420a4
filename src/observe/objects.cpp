#include "observe/objects.hpp"

#include <link.h>
#include <unistd.h>

namespace nearfield::observe {
namespace {

struct Object {
  std::uint64_t begin, end, base;
  const char* path;
};
constexpr std::uint64_t most_objects = 512;
Object objects[most_objects];
std::uint64_t known = 0;

struct Search {
  std::uint64_t code;
  Object object{};
};

int look(dl_phdr_info* info, std::size_t, void* what) {
  auto& search = *static_cast<Search*>(what);
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

// The loader knows the executable without a name.
const char* executable() {
  static char path[4096];
  const auto length = readlink("/proc/self/exe", path, sizeof path - 1);
  if (length > 0) path[length] = 0;
  return path;
}

}  // namespace

Place place_of(std::uint64_t code, void (*found)(std::uint64_t, const char*)) {
  for (std::uint64_t i = 0; i < known; ++i)
    if (code >= objects[i].begin && code <= objects[i].end) return {i, code - objects[i].base};
  Search search{code};
  dl_iterate_phdr(look, &search);
  if (search.object.end == 0) search.object = {code, code, 0, "code made at run time"};
  if (!*search.object.path) search.object.path = executable();
  const std::uint64_t number = known < most_objects ? known++ : most_objects - 1;
  objects[number] = search.object;
  found(number, search.object.path);
  return {number, code - search.object.base};
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

std::uint64_t found_objects() { return known; }
const char* path_of(std::uint64_t object) { return objects[object].path; }

}  // namespace nearfield::observe

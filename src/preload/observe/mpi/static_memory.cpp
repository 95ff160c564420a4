#include "preload/observe/mpi/static_memory.hpp"

#include <link.h>
#include <pthread.h>

namespace nearfield::observe {
namespace {

int add_writable_segments(dl_phdr_info* object, std::size_t, void* to) {
  auto& ranges = *static_cast<std::vector<stream::Number>*>(to);
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const auto& part = object->dlpi_phdr[i];
    if (part.p_type == PT_LOAD && (part.p_flags & PF_W))
      ranges.insert(ranges.end(), {object->dlpi_addr + part.p_vaddr, part.p_memsz});
  }
  return 0;
}

}  // namespace

stream::StaticAndStackRanges static_and_stack_ranges() {
  stream::StaticAndStackRanges found;
  dl_iterate_phdr(add_writable_segments, &found.variables);
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return found;
  void* lowest = nullptr;
  std::size_t bytes = 0;
  if (pthread_attr_getstack(&attributes, &lowest, &bytes) == 0) {
    found.stack = reinterpret_cast<std::uintptr_t>(lowest);
    found.stack_bytes = bytes;
  }
  pthread_attr_destroy(&attributes);
  return found;
}

}  // namespace nearfield::observe

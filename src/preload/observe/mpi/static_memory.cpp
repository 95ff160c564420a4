#include "preload/observe/mpi/static_memory.hpp"

#include <link.h>
#include <pthread.h>

namespace nearfield::observe {
namespace {

int add_writable_segments(dl_phdr_info* object, std::size_t, void* ranges_pointer) {
  auto& ranges = *static_cast<std::vector<stream::Number>*>(ranges_pointer);
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const auto& segment = object->dlpi_phdr[i];
    if (segment.p_type == PT_LOAD && (segment.p_flags & PF_W))
      ranges.insert(ranges.end(), {object->dlpi_addr + segment.p_vaddr, segment.p_memsz});
  }
  return 0;
}

}  // namespace

stream::StaticAndStackRanges static_and_stack_ranges() {
  stream::StaticAndStackRanges ranges;
  dl_iterate_phdr(add_writable_segments, &ranges.variables);
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return ranges;
  void* lowest = nullptr;
  std::size_t bytes = 0;
  if (pthread_attr_getstack(&attributes, &lowest, &bytes) == 0) {
    ranges.stack = reinterpret_cast<std::uintptr_t>(lowest);
    ranges.stack_bytes = bytes;
  }
  pthread_attr_destroy(&attributes);
  return ranges;
}

}  // namespace nearfield::observe

// Calls mmap, munmap, mprotect and madvise without remapped.cpp, which interposes on them. The heap calls the next
// definitions of these functions and not the kernel, because network libraries intercept them to learn which of their
// registered pages have been unmapped.
#pragma once

#include <sys/types.h>

#include <cstddef>

namespace nearfield::heap {

void* next_mmap(void* address, std::size_t bytes, int protection, int flags, int file, off_t offset);
int next_munmap(void* address, std::size_t bytes);
int next_mprotect(void* address, std::size_t bytes, int protection);
int next_madvise(void* address, std::size_t bytes, int advice);

// Maps memory whose pages are allocated when they are touched, even if the program has locked its future memory by
// mlockall(). Parameters, result and errors are those of mmap().
void* map_on_demand(void* address, std::size_t bytes, int protection, int flags, int file, off_t offset);

}  // namespace nearfield::heap

// The C library's functions that ours of the same names stand before (remapped.cpp). Network libraries watch them to
// learn which of their registered pages are gone, so that the heap calls them and not the kernel.
#pragma once

#include <sys/types.h>

#include <cstddef>

namespace nearfield::heap {

void* next_mmap(void* at, std::size_t bytes, int protection, int flags, int file, off_t offset);
int next_munmap(void* at, std::size_t bytes);
int next_mprotect(void* at, std::size_t bytes, int protection);
int next_madvise(void* at, std::size_t bytes, int advice);

// Maps memory whose pages come into being when they are touched, even where the program has locked its memory of the
// future by mlockall(). Parameters, result and errors are those of mmap().
void* map_on_demand(void* at, std::size_t bytes, int protection, int flags, int file, off_t offset);

}  // namespace nearfield::heap

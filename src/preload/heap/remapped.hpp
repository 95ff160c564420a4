// Makes pages private before the program changes their mapping (remapped.cpp).
#pragma once

#include <cstddef>

namespace nearfield::heap {

// Called before syscall(number, at, bytes, third, fourth, fifth). Makes the shared pages private whose mapping the call
// may change; all of them before a call that creates a process.
void before_mapping_call(long number, const void* at, std::size_t bytes, long third, long fourth, const void* fifth);

}  // namespace nearfield::heap

// See remapped.cpp.
#pragma once

#include <cstddef>

namespace nearfield::heap {

// Called before a system call by number, with its arguments: makes the memory that it concerns private.
void before_mapping_call(long number, const void* at, std::size_t bytes, long third, long fourth, const void* fifth);

}  // namespace nearfield::heap

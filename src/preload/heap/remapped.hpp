// Makes pages private before the program changes their mapping (remapped.cpp).
#pragma once

#include <cstddef>

namespace nearfield::heap {

// Called before syscall() with the system call's number and its arguments. Makes those shared pages private whose
// mapping the call may change; before a call that creates a process, all of them.
void unshare_before_mapping_call(long syscall_number, const void* address, std::size_t bytes, long third_argument,
                                 long fourth_argument, const void* fifth_argument);

}  // namespace nearfield::heap

// Counts the copies that this process makes by the kernel (cross-memory attach, CMA).
#pragma once

#include <cstdint>
#include <string>

namespace nearfield::probe {

/// Number of calls of process_vm_readv and process_vm_writev in this process so far, by any library, directly or
/// through syscall(). Copies by XPMEM and KNEM are not counted.
extern std::uint64_t single_copy_calls;

/// Returns the file name of the library that made the last counted call; empty if no call was made.
std::string last_single_copy_caller();

}  // namespace nearfield::probe

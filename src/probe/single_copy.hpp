// Counts the messages that this process moved by single copy through the kernel (cross-memory attach).
#pragma once

#include <cstdint>
#include <string>

namespace nearfield::probe {

/// This process's calls of process_vm_readv and process_vm_writev so far, by any library. Calls of the C library's
/// symbols are counted; copies by XPMEM and KNEM are not.
extern std::uint64_t single_copy_calls;

/// Returns the file name of the library that made the last of these calls; empty if there was none.
std::string single_copy_caller();

}  // namespace nearfield::probe

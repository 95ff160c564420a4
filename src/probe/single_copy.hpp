// How many messages this process moved by single copy through the kernel (cross-memory attach).
#pragma once

#include <cstdint>
#include <string>

namespace nearfield::probe {

/// process_vm_readv and process_vm_writev calls of this process so far, by whatever library. Counts calls that
/// go through the C library's symbols; XPMEM and KNEM copies are not seen.
extern std::uint64_t single_copy_calls;

/// File name of the library that made the last of these calls; empty if there was none.
std::string single_copy_caller();

}  // namespace nearfield::probe

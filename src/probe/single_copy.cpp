// Counts the messages that the kernel copies straight from one process to another. The symbols stand before the
// C library's, so that the MPI library's calls come here first; the call itself is made unchanged.
#include "probe/single_copy.hpp"

#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

namespace nearfield::probe {

std::uint64_t single_copy_calls = 0;

}  // namespace nearfield::probe

extern "C" {

__attribute__((visibility("default"))) ssize_t process_vm_readv(pid_t pid, const iovec* local, unsigned long n_local,
                                                                const iovec* remote, unsigned long n_remote,
                                                                unsigned long flags) noexcept {
  ++nearfield::probe::single_copy_calls;
  return syscall(SYS_process_vm_readv, pid, local, n_local, remote, n_remote, flags);
}

__attribute__((visibility("default"))) ssize_t process_vm_writev(pid_t pid, const iovec* local, unsigned long n_local,
                                                                 const iovec* remote, unsigned long n_remote,
                                                                 unsigned long flags) noexcept {
  ++nearfield::probe::single_copy_calls;
  return syscall(SYS_process_vm_writev, pid, local, n_local, remote, n_remote, flags);
}
}

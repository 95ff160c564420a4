// Counts copies by process_vm_readv and process_vm_writev. The functions at the end of this file interpose on those of
// the C library, so that the MPI library calls them; they forward to the next definition in link order: that of the C
// library, or that of the shared heap if its library is preloaded. `syscall` is interposed too, because Intel MPI makes
// these system calls through it.
#include "probe/single_copy.hpp"

#include <dlfcn.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstdarg>

#include "base/export.h"

namespace nearfield::probe {

std::uint64_t single_copy_calls = 0;

namespace {

const void* last_caller_address = nullptr;

using VmCopyFunction = ssize_t (*)(pid_t, const iovec*, unsigned long, const iovec*, unsigned long, unsigned long);

// Returns the next definition of process_vm_readv or process_vm_writev after the one in this file.
VmCopyFunction find_next_definition(long syscall_number) {
  static const auto read = reinterpret_cast<VmCopyFunction>(dlsym(RTLD_NEXT, "process_vm_readv"));
  static const auto write = reinterpret_cast<VmCopyFunction>(dlsym(RTLD_NEXT, "process_vm_writev"));
  return syscall_number == SYS_process_vm_readv ? read : write;
}

long call_next_syscall(long syscall_number, const long (&a)[6]) {
  static const auto symbol = reinterpret_cast<decltype(&syscall)>(dlsym(RTLD_NEXT, "syscall"));
  return symbol(syscall_number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

void count_call(const void* caller) noexcept {
  ++single_copy_calls;
  last_caller_address = caller;
}

}  // namespace

std::string last_single_copy_caller() {
  Dl_info symbol;
  if (!last_caller_address || !dladdr(last_caller_address, &symbol) || !symbol.dli_fname) return {};
  const std::string path = symbol.dli_fname;
  return path.substr(path.rfind('/') + 1);
}

}  // namespace nearfield::probe

NEARFIELD_EXPORT ssize_t process_vm_readv(pid_t pid, const iovec* local, unsigned long n_local, const iovec* remote,
                                          unsigned long n_remote, unsigned long flags) noexcept {
  using namespace nearfield::probe;
  count_call(__builtin_return_address(0));
  return find_next_definition(SYS_process_vm_readv)(pid, local, n_local, remote, n_remote, flags);
}

NEARFIELD_EXPORT ssize_t process_vm_writev(pid_t pid, const iovec* local, unsigned long n_local, const iovec* remote,
                                           unsigned long n_remote, unsigned long flags) noexcept {
  using namespace nearfield::probe;
  count_call(__builtin_return_address(0));
  return find_next_definition(SYS_process_vm_writev)(pid, local, n_local, remote, n_remote, flags);
}

NEARFIELD_EXPORT long syscall(long syscall_number, ...) noexcept {
  using namespace nearfield::probe;
  va_list list;
  va_start(list, syscall_number);
  long a[6];
  for (long& argument : a) argument = va_arg(list, long);
  va_end(list);
  if (syscall_number == SYS_process_vm_readv || syscall_number == SYS_process_vm_writev) {
    count_call(__builtin_return_address(0));
    return find_next_definition(syscall_number)(static_cast<pid_t>(a[0]), reinterpret_cast<const iovec*>(a[1]),
                                                static_cast<unsigned long>(a[2]), reinterpret_cast<const iovec*>(a[3]),
                                                static_cast<unsigned long>(a[4]), static_cast<unsigned long>(a[5]));
  }
  return call_next_syscall(syscall_number, a);
}

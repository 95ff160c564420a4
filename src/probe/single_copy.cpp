// Counts messages copied directly from one process to another. These symbols interpose on the C library's, so that the
// MPI library calls them; they forward to the next definition, which is the C library's, or the shared heap's if that
// is preloaded. `syscall` is included because Intel MPI makes these two calls through it.
#include "probe/single_copy.hpp"

#include <dlfcn.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>

#include "base/export.h"

namespace nearfield::probe {

std::uint64_t single_copy_calls = 0;

namespace {

const void* last_caller = nullptr;

long kernel_call(long number, long a, long b, long c, long d, long e, long f) noexcept {
#if defined(__x86_64__)
  register long r10 asm("r10") = d;
  register long r8 asm("r8") = e;
  register long r9 asm("r9") = f;
  long result;
  asm volatile("syscall"
               : "=a"(result)
               : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
               : "rcx", "r11", "memory");
#elif defined(__aarch64__)
  register long x8 asm("x8") = number;
  register long x0 asm("x0") = a;
  register long x1 asm("x1") = b;
  register long x2 asm("x2") = c;
  register long x3 asm("x3") = d;
  register long x4 asm("x4") = e;
  register long x5 asm("x5") = f;
  asm volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
  const long result = x0;
#else
#error "nearfield's engine knows the system call instruction of x86-64 and AArch64 only"
#endif
  if (result < 0 && result > -4096) {
    errno = static_cast<int>(-result);
    return -1;
  }
  return result;
}

using Call = ssize_t (*)(pid_t, const iovec*, unsigned long, const iovec*, unsigned long, unsigned long);

// The next definitions after ours.
Call next(long number) {
  static const auto read = reinterpret_cast<Call>(dlsym(RTLD_NEXT, "process_vm_readv"));
  static const auto write = reinterpret_cast<Call>(dlsym(RTLD_NEXT, "process_vm_writev"));
  return number == SYS_process_vm_readv ? read : write;
}

void count(const void* caller) noexcept {
  ++single_copy_calls;
  last_caller = caller;
}

}  // namespace

std::string single_copy_caller() {
  Dl_info found;
  if (!last_caller || !dladdr(last_caller, &found) || !found.dli_fname) return {};
  const std::string path = found.dli_fname;
  return path.substr(path.rfind('/') + 1);
}

}  // namespace nearfield::probe

NEARFIELD_EXPORT ssize_t process_vm_readv(pid_t pid, const iovec* local, unsigned long n_local, const iovec* remote,
                                          unsigned long n_remote, unsigned long flags) noexcept {
  using namespace nearfield::probe;
  count(__builtin_return_address(0));
  return next(SYS_process_vm_readv)(pid, local, n_local, remote, n_remote, flags);
}

NEARFIELD_EXPORT ssize_t process_vm_writev(pid_t pid, const iovec* local, unsigned long n_local, const iovec* remote,
                                           unsigned long n_remote, unsigned long flags) noexcept {
  using namespace nearfield::probe;
  count(__builtin_return_address(0));
  return next(SYS_process_vm_writev)(pid, local, n_local, remote, n_remote, flags);
}

NEARFIELD_EXPORT long syscall(long number, ...) noexcept {
  using namespace nearfield::probe;
  va_list list;
  va_start(list, number);
  long a[6];
  for (long& argument : a) argument = va_arg(list, long);
  va_end(list);
  if (number == SYS_process_vm_readv || number == SYS_process_vm_writev) {
    count(__builtin_return_address(0));
    return next(number)(static_cast<pid_t>(a[0]), reinterpret_cast<const iovec*>(a[1]),
                        static_cast<unsigned long>(a[2]), reinterpret_cast<const iovec*>(a[3]),
                        static_cast<unsigned long>(a[4]), static_cast<unsigned long>(a[5]));
  }
  return kernel_call(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

// System calls without the C library, and syscall() itself, through which Intel MPI makes the two calls that move()
// replaces.
#include "heap/kernel_call.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#if defined(__x86_64__)

// syscall() for everything but the two calls: the C library's own instructions, without a frame, because calls that
// return twice (clone, vfork) must find the stack as they left it.
extern "C" long nearfield_heap_syscall(long number, ...);
extern "C" __attribute__((used)) long nearfield_heap_failed(long negative) {
  errno = static_cast<int>(-negative);
  return -1;
}
extern "C" long nearfield_heap_copy_call(long number, long pid, const iovec* local, long local_count,
                                         const iovec* remote, long remote_count, long flags) {
  return nearfield::heap::move(number, static_cast<pid_t>(pid), local, static_cast<unsigned long>(local_count), remote,
                               static_cast<unsigned long>(remote_count), static_cast<unsigned long>(flags));
}

__asm__(R"(
  .text
  .p2align 4
  .globl syscall
  .type syscall, @function
syscall:
  .cfi_startproc
  endbr64
  leaq -310(%rdi), %rax
  cmpq $1, %rax
  jbe nearfield_heap_copy_call
  .cfi_endproc
  .size syscall, .-syscall
  .hidden nearfield_heap_syscall
  .globl nearfield_heap_syscall
  .type nearfield_heap_syscall, @function
nearfield_heap_syscall:
  .cfi_startproc
  movq %rdi, %rax
  movq %rsi, %rdi
  movq %rdx, %rsi
  movq %rcx, %rdx
  movq %r8, %r10
  movq %r9, %r8
  movq 8(%rsp), %r9
  syscall
  cmpq $-4095, %rax
  jae 1f
  ret
1:
  movq %rax, %rdi
  jmp nearfield_heap_failed
  .cfi_endproc
  .size nearfield_heap_syscall, .-nearfield_heap_syscall
)");
static_assert(SYS_process_vm_readv == 310 && SYS_process_vm_writev == 311);

#endif

namespace nearfield::heap {

ssize_t kernel_copies(long call, pid_t pid, const iovec* local, unsigned long local_count, const iovec* remote,
                      unsigned long remote_count, unsigned long flags) {
#if defined(__x86_64__)
  return nearfield_heap_syscall(call, pid, local, local_count, remote, remote_count, flags);
#else
  return syscall(call, pid, local, local_count, remote, remote_count, flags);
#endif
}

}  // namespace nearfield::heap

// System calls without the C library, and a replacement of syscall(): through syscall(), Intel MPI calls
// process_vm_readv and process_vm_writev, which cma_transfer() replaces, and Open MPI 5 calls kcmp to learn whether it
// may copy.
#include "preload/heap/kernel_call.hpp"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "preload/heap/copy_requests.hpp"
#include "preload/heap/copy_service.hpp"
#include "preload/heap/remapped.hpp"

#if defined(__x86_64__)

// syscall(), with the same instructions as the C library's. The calls 310 to 312 (process_vm_readv, process_vm_writev,
// kcmp) go to nearfield_heap_copy_call(). All others are passed on without a stack frame, because calls that return
// twice (clone, vfork) must find the stack unchanged. Calls that change mappings or create processes (numbers 9 to 28,
// 56, 57, 151, 216, 329 and 435) are preceded by nearfield_heap_before_mapping_call().
extern "C" long nearfield_heap_syscall(long syscall_number, ...);
extern "C" __attribute__((used)) long nearfield_heap_failed(long negative) {
  errno = static_cast<int>(-negative);
  return -1;
}
namespace nearfield::heap {
namespace {

// Returns the result of kcmp(first, second, type, ...). Open MPI 5 concludes from a failure of kcmp that it may not
// copy from the process `second`. Containers forbid kcmp more often than process_vm_readv. So if kcmp is forbidden but
// copies from that process are possible, returns 3, for different address spaces.
long compare_processes(long first, const void* second, long type, const void* fourth_argument, long fifth_argument) {
  const long order = nearfield_heap_syscall(SYS_kcmp, first, second, type, fourth_argument, fifth_argument);
  constexpr long memory = 1, differ = 3;  // KCMP_VM; kcmp's result if the address spaces differ and are not ordered
  if (order >= 0 || errno != EPERM || type != memory || first != getpid()) return order;
  const auto peer = static_cast<pid_t>(reinterpret_cast<std::intptr_t>(second));
  if (kernel_may_read(peer) || peer_serves_copies(peer)) return differ;
  errno = EPERM;
  return -1;
}

}  // namespace
}  // namespace nearfield::heap

extern "C" long nearfield_heap_copy_call(long syscall_number, long pid, const iovec* local, long local_count,
                                         const iovec* remote, long remote_count, long flags) {
  if (syscall_number == SYS_kcmp)
    return nearfield::heap::compare_processes(pid, local, local_count, remote, remote_count);
  return nearfield::heap::cma_transfer(
      {syscall_number, static_cast<pid_t>(pid), local, static_cast<unsigned long>(local_count), remote,
       static_cast<unsigned long>(remote_count), static_cast<unsigned long>(flags)},
      nullptr);
}
// Called before a system call that may change mappings, with the number and the arguments of the call.
extern "C" void nearfield_heap_before_mapping_call(long syscall_number, const void* address, std::size_t bytes,
                                                   long third_argument, long fourth_argument, void* fifth_argument) {
  nearfield::heap::unshare_before_mapping_call(syscall_number, address, bytes, third_argument, fourth_argument,
                                               fifth_argument);
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
  cmpq $2, %rax
  jbe nearfield_heap_copy_call
  leaq -9(%rdi), %rax
  cmpq $19, %rax
  jbe 1f
  cmpq $56, %rdi
  je 1f
  cmpq $57, %rdi
  je 1f
  cmpq $151, %rdi
  je 1f
  cmpq $216, %rdi
  je 1f
  cmpq $435, %rdi
  je 1f
  cmpq $329, %rdi
  jne nearfield_heap_syscall
1:
  pushq %rdi
  .cfi_adjust_cfa_offset 8
  pushq %rsi
  .cfi_adjust_cfa_offset 8
  pushq %rdx
  .cfi_adjust_cfa_offset 8
  pushq %rcx
  .cfi_adjust_cfa_offset 8
  pushq %r8
  .cfi_adjust_cfa_offset 8
  pushq %r9
  .cfi_adjust_cfa_offset 8
  subq $8, %rsp
  .cfi_adjust_cfa_offset 8
  call nearfield_heap_before_mapping_call
  addq $8, %rsp
  .cfi_adjust_cfa_offset -8
  popq %r9
  .cfi_adjust_cfa_offset -8
  popq %r8
  .cfi_adjust_cfa_offset -8
  popq %rcx
  .cfi_adjust_cfa_offset -8
  popq %rdx
  .cfi_adjust_cfa_offset -8
  popq %rsi
  .cfi_adjust_cfa_offset -8
  popq %rdi
  .cfi_adjust_cfa_offset -8
  jmp nearfield_heap_syscall
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
static_assert(SYS_process_vm_readv == 310 && SYS_process_vm_writev == 311 && SYS_kcmp == 312);
static_assert(SYS_mmap == 9 && SYS_mprotect == 10 && SYS_munmap == 11 && SYS_mremap == 25 && SYS_madvise == 28);
static_assert(SYS_remap_file_pages == 216 && SYS_pkey_mprotect == 329);
static_assert(SYS_clone == 56 && SYS_fork == 57 && SYS_clone3 == 435);

#endif

namespace nearfield::heap {

ssize_t copy_by_kernel(long syscall_number, pid_t pid, const iovec* local, unsigned long local_count,
                       const iovec* remote, unsigned long remote_count, unsigned long flags) {
#if defined(__x86_64__)
  return nearfield_heap_syscall(syscall_number, pid, local, local_count, remote, remote_count, flags);
#else
  return syscall(syscall_number, pid, local, local_count, remote, remote_count, flags);
#endif
}

bool kernel_may_read(pid_t pid) {
  char first;
  const iovec local{&first, 1}, remote{&first, 1};
  return copy_by_kernel(SYS_process_vm_readv, pid, &local, 1, &remote, 1, 0) == 1 || errno == EFAULT;
}

ssize_t copy_without_heap(long syscall_number, pid_t pid, const iovec* local, unsigned long local_count,
                          const iovec* remote, unsigned long remote_count, unsigned long flags) {
  const ssize_t done = copy_by_kernel(syscall_number, pid, local, local_count, remote, remote_count, flags);
  const bool is_forbidden = done < 0 && (errno == EPERM || errno == ENOSYS);
  if (!is_forbidden || flags != 0 || !serves_copies()) return done;
  return copy_by_owner(syscall_number == SYS_process_vm_writev, pid, local, local_count, remote, remote_count);
}

}  // namespace nearfield::heap

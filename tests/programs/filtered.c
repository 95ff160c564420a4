// Starts a program under a filter of system calls. argv: what the filter does; the program and its arguments.
//   kill         kills whoever calls memfd_create or pidfd_getfd, as sandboxes do
//   refuse       refuses what one process needs to read another's memory, as strict containers do
//   refuse-kcmp  refuses kcmp, as containers do by default
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif

enum { max_calls = 8 };

// Installs a filter that answers these calls by an action. Returns whether that was possible.
static int install(const unsigned* calls, unsigned count, unsigned action) {
  struct sock_filter program[2 * max_calls + 2] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
  };
  unsigned short length = 1;
  for (unsigned i = 0; i < count; ++i) {
    program[length++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[i], 0, 1);
    program[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action);
  }
  program[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  struct sock_fprog filter = {length, program};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

int main(int argc, char** argv) {
  static const unsigned killed[] = {SYS_memfd_create, SYS_pidfd_getfd};
  static const unsigned refused[] = {SYS_kcmp, SYS_process_vm_readv, SYS_process_vm_writev, SYS_pidfd_getfd, SYS_ptrace};
  if (argc < 3) return 9;
  const unsigned count = strcmp(argv[1], "refuse-kcmp") == 0 ? 1 : 5;
  const int installed = strcmp(argv[1], "kill") == 0 ? install(killed, 2, SECCOMP_RET_KILL_PROCESS)
                                                     : install(refused, count, SECCOMP_RET_ERRNO | EPERM);
  if (!installed) return 8;
  execvp(argv[2], argv + 2);
  return 7;
}

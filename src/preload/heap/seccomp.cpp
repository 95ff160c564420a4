#include "preload/heap/seccomp.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "base/linux.h"
#include "preload/heap/status.hpp"

namespace nearfield::heap {
namespace {

constinit long num_filters_at_start = 0;

// Returns the number of filters; before Linux 5.9, the seccomp mode, which is 0 if there is no filter.
long count_filters() {
  const ProcessStatus status;
  const long filters = status.read_number_after_key("Seccomp_filters");
  return filters >= 0 ? filters : status.read_number_after_key("Seccomp");
}

// Runs in a child: makes the heap's system calls, whether or not they succeed, and exits.
[[noreturn]] void try_filtered_calls() {
  prctl(PR_SET_DUMPABLE, 0);  // no core file if a filter kills the child
  const int file = memfd_create("nearfield-heap", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  fcntl(file, F_ADD_SEALS, F_SEAL_SEAL);
  fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096);
  const int process = static_cast<int>(syscall(SYS_pidfd_open, getppid(), 0));
  syscall(SYS_pidfd_getfd, process, 0, 0);
  _exit(0);
}

}  // namespace

bool survives_syscall_filters() {
  num_filters_at_start = count_filters();
  if (num_filters_at_start <= 0) return true;
  const int error = errno;
  const pid_t child = fork();
  if (child == 0) try_filtered_calls();
  int status = 1;
  while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  errno = error;
  return child > 0 && WIFEXITED(status);
}

bool has_same_syscall_filters() { return count_filters() == num_filters_at_start; }

}  // namespace nearfield::heap

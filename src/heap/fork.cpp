#include "heap/fork.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/export.h"
#include "heap/counts.hpp"
#include "heap/heap.hpp"
#include "heap/peers.hpp"

namespace nearfield::heap {
namespace {

constexpr std::size_t longest_copied = std::size_t{1} << 30;

// Between before_fork() and what follows it; under the heap's lock.
constinit bool child_copies = false;
constinit int wait_here[2] = {-1, -1};  // a pipe: its end is closed when the child has copied, or has died

// Whether pages of this process are registered with a device (VmPin in /proc/self/status).
bool has_pinned_pages() {
  char text[4096];
  const int file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  const ssize_t length = read(file, text, sizeof text - 1);
  close(file);
  if (length <= 0) return false;
  text[length] = '\0';
  const char* line = std::strstr(text, "VmPin:");
  return line && std::strtoul(line + 6, nullptr, 10) > 0;
}

void prepare() {
  if (!heap_is_open()) return;
  const bool is_short = heap_content_bytes() <= longest_copied;
  if (!is_short && !has_pinned_pages() && retire_heap()) return;
  child_copies = pipe2(wait_here, O_CLOEXEC) == 0;
  if (child_copies)
    let_child_inherit(true);
  else
    retire_heap();
}

void before_fork() {
  lock_heap();
  prepare();
}

void after_fork() {
  if (child_copies) {
    close(wait_here[1]);
    char nothing;
    while (read(wait_here[0], &nothing, 1) < 0 && errno == EINTR) {
    }
    close(wait_here[0]);
    let_child_inherit(false);
    child_copies = false;
  }
  unlock_heap();
}

void after_fork_in_child() {
  if (child_copies) {
    copy_inherited_heap();
    close(wait_here[0]);
    close(wait_here[1]);
    child_copies = false;
  }
  renew_heap_lock();
  forget_peers();
  forget_counts();
}

}  // namespace

void watch_forks() { pthread_atfork(before_fork, after_fork, after_fork_in_child); }

}  // namespace nearfield::heap

// fork() without handlers (glibc 2.34), from signal handlers too, which may have interrupted the heap: then the child
// has no heap blocks.
NEARFIELD_EXPORT pid_t _Fork() {
  using namespace nearfield::heap;
  static const auto next = reinterpret_cast<pid_t (*)()>(dlsym(RTLD_NEXT, "_Fork"));
  if (!next) {
    errno = ENOSYS;
    return -1;
  }
  if (!try_to_lock_heap()) return next();
  prepare();
  const pid_t child = next();
  const int error = errno;
  if (child == 0)
    after_fork_in_child();
  else
    after_fork();
  errno = error;
  return child;
}

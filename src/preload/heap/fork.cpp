#include "preload/heap/fork.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <cerrno>

#include "base/export.h"
#include "preload/heap/copy_requests.hpp"
#include "preload/heap/copy_service.hpp"
#include "preload/heap/counts.hpp"
#include "preload/heap/heap.hpp"
#include "preload/heap/peers.hpp"
#include "preload/heap/sharing.hpp"
#include "preload/heap/users.hpp"

namespace nearfield::heap {
namespace {

// State from before_fork() to after_fork() in the parent and after_fork_in_child() in the child; the heap is locked.
constinit bool child_copies_shared_pages = false;
constinit int copy_done_pipe[2] = {-1, -1};  // the child closes the write end when it has copied, or dies

void prepare_heap_for_fork() {
  if (!is_heap_open()) return;
  count_fork();
  if (!prepare_pages_for_fork()) return;
  child_copies_shared_pages = pipe2(copy_done_pipe, O_CLOEXEC) == 0;
  if (!child_copies_shared_pages) {
    end_page_inheritance();
    unshare_all();
  }
}

void before_fork() {
  lock_heap();
  prepare_heap_for_fork();
}

void after_fork() {
  if (child_copies_shared_pages) {
    close(copy_done_pipe[1]);
    char nothing;
    while (read(copy_done_pipe[0], &nothing, 1) < 0 && errno == EINTR) {
    }
    close(copy_done_pipe[0]);
    end_page_inheritance();
    child_copies_shared_pages = false;
  }
  unlock_heap();
}

void after_fork_in_child() {
  if (child_copies_shared_pages) {
    copy_inherited_pages();
    close(copy_done_pipe[0]);
    close(copy_done_pipe[1]);
    child_copies_shared_pages = false;
  }
  reset_sharing();
  reinitialize_heap_lock_after_fork();
  forget_harmless_threads();
  reset_peers();
  reset_copy_counts();
  reset_copy_service();
  reset_copy_requests();
}

}  // namespace

void register_fork_handlers() { pthread_atfork(before_fork, after_fork, after_fork_in_child); }

}  // namespace nearfield::heap

// _Fork() of glibc 2.34 runs no fork handlers, so this function calls them. A signal handler may call _Fork() while the
// interrupted thread holds the heap's lock; then nothing is prepared, and the child has no shared pages.
NEARFIELD_EXPORT pid_t _Fork() {
  using namespace nearfield::heap;
  static const auto next = reinterpret_cast<pid_t (*)()>(dlsym(RTLD_NEXT, "_Fork"));
  if (!next) {
    errno = ENOSYS;
    return -1;
  }
  if (!try_to_lock_heap()) return next();
  prepare_heap_for_fork();
  const pid_t child = next();
  const int error = errno;
  if (child == 0)
    after_fork_in_child();
  else
    after_fork();
  errno = error;
  return child;
}

// Interposes on the functions that change the mapping, protection or other properties of pages (mmap, munmap, mremap,
// madvise, mprotect ...). The shared pages in their range become private first, so that the functions behave as on any
// other heap (sharing.hpp); then the next function is called.
//
// is_harmless_advice() lists the advice that preserves the content and kind of memory. Memory to which any other call
// was applied is not shared again until the heap has returned it to the system. System calls that a program makes by
// the processor's syscall instruction are not intercepted; those through the function syscall() are (kernel_call.cpp).
#include "preload/heap/remapped.hpp"

#include <dlfcn.h>
#include <linux/userfaultfd.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdint>

#include "base/export.h"
#include "base/linux.h"
#include "preload/heap/heap.hpp"
#include "preload/heap/next_calls.hpp"
#include "preload/heap/pages.hpp"
#include "preload/heap/peers.hpp"
#include "preload/heap/sharing.hpp"

namespace nearfield::heap {
namespace {

template <typename F>
F next_function(const char* name) {
  return reinterpret_cast<F>(dlsym(RTLD_NEXT, name));
}

// True while this thread is inside a call that the heap itself makes. Network libraries that intercept such a call pass
// it on through syscall(), where it must not be mistaken for a call of the program.
[[gnu::tls_model("initial-exec")]] thread_local constinit bool is_own_call = false;

class OwnCall {
 public:
  OwnCall() : was_own_call_(is_own_call) { is_own_call = true; }
  ~OwnCall() { is_own_call = was_own_call_; }
  OwnCall(const OwnCall&) = delete;
  OwnCall& operator=(const OwnCall&) = delete;

 private:
  bool was_own_call_;
};

// Returns whether the range overlaps the heap's addresses and the call is not one of the heap itself.
bool is_program_call_on_heap(const void* address, std::size_t bytes) {
  if (is_own_call) return false;
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  return begin < heap_begin + heap_address_bytes && bytes > 0 && (begin >= heap_begin || bytes > heap_begin - begin);
}

class HeapLock {
 public:
  HeapLock() { lock_heap(); }
  ~HeapLock() { unlock_heap(); }
  HeapLock(const HeapLock&) = delete;
  HeapLock& operator=(const HeapLock&) = delete;
};

void unshare_before_change(const void* address, std::size_t bytes) {
  if (!is_program_call_on_heap(address, bytes)) return;
  const HeapLock locked;
  keep_private(address, bytes);
}

// Returns whether this advice changes neither the content of private memory nor what a forked child inherits.
bool is_harmless_advice(int advice) {
  static constexpr int harmless_advice[] = {
      MADV_NORMAL,   MADV_RANDOM, MADV_SEQUENTIAL, MADV_WILLNEED,    MADV_HUGEPAGE,          MADV_NOHUGEPAGE,
      MADV_DONTDUMP, MADV_DODUMP, 20 /* COLD */,   21 /* PAGEOUT */, 22 /* POPULATE_READ */, MADV_POPULATE_WRITE,
      MADV_COLLAPSE};
  for (const int one : harmless_advice)
    if (advice == one) return true;
  return false;
}

void unshare_before_advice(const void* address, std::size_t bytes, int advice) {
  if (!is_program_call_on_heap(address, bytes)) return;
  if (advice == MADV_HUGEPAGE) record_huge_page_advice(address, bytes);
  if (is_harmless_advice(advice)) return;
  const HeapLock locked;
  // By this advice the program gives up the content, at once or under memory pressure; the pages may be shared again
  // later.
  if (advice == MADV_DONTNEED || advice == MADV_FREE || advice == MADV_REMOVE)
    unshare(address, bytes, advice == MADV_DONTNEED ? PageContent::dropped : PageContent::retained);
  else
    keep_private(address, bytes);
}

}  // namespace

void* next_mmap(void* address, std::size_t bytes, int protection, int flags, int file, off_t offset) {
  static const auto next = next_function<void* (*)(void*, std::size_t, int, int, int, off_t)>("mmap");
  const OwnCall own_call;
  return next(address, bytes, protection, flags, file, offset);
}

int next_munmap(void* address, std::size_t bytes) {
  static const auto next = next_function<int (*)(void*, std::size_t)>("munmap");
  const OwnCall own_call;
  return next(address, bytes);
}

int next_mprotect(void* address, std::size_t bytes, int protection) {
  static const auto next = next_function<int (*)(void*, std::size_t, int)>("mprotect");
  return next(address, bytes, protection);
}

void* map_on_demand(void* address, std::size_t bytes, int protection, int flags, int file, off_t offset) {
  void* mapped = next_mmap(address, bytes, PROT_NONE, flags | MAP_NORESERVE, file, offset);
  if (mapped == MAP_FAILED) return MAP_FAILED;
  munlock(mapped, bytes);  // while the memory is inaccessible, so that no page has been allocated
  if (next_mprotect(mapped, bytes, protection) == 0) return mapped;
  next_munmap(mapped, bytes);
  return MAP_FAILED;
}

int next_madvise(void* address, std::size_t bytes, int advice) {
  static const auto next = next_function<int (*)(void*, std::size_t, int)>("madvise");
  const OwnCall own_call;
  return next(address, bytes, advice);
}

namespace {

// Called before a child is created without fork handlers: makes all pages private, so that the child gets copies.
void unshare_before_fork_call() {
  const HeapLock locked;
  unshare_all();
}

}  // namespace

void unshare_before_mapping_call(long syscall_number, const void* address, std::size_t bytes, long third_argument,
                                 long fourth_argument, const void* fifth_argument) {
  switch (syscall_number) {
    case SYS_mmap:
      if (fourth_argument & MAP_FIXED) unshare_before_change(address, bytes);
      break;
    case SYS_mremap:
      unshare_before_change(address, bytes);
      if (fourth_argument & MREMAP_FIXED)
        unshare_before_change(fifth_argument, static_cast<std::size_t>(third_argument));
      break;
    case SYS_madvise:
      unshare_before_advice(address, bytes, static_cast<int>(third_argument));
      break;
    case SYS_mprotect:
    case SYS_pkey_mprotect:
      if (third_argument != (PROT_READ | PROT_WRITE)) unshare_before_change(address, bytes);
      break;
#ifdef SYS_fork
    case SYS_fork:
      unshare_before_fork_call();
      break;
#endif
    case SYS_clone:
      if (!(reinterpret_cast<std::uintptr_t>(address) & CLONE_VM)) unshare_before_fork_call();
      break;
    case SYS_clone3:
      if (address && !(*static_cast<const std::uint64_t*>(address) & CLONE_VM)) unshare_before_fork_call();
      break;
    case SYS_mlockall:
      unmap_windows();
      break;
    case SYS_munmap:
    case SYS_remap_file_pages:
      unshare_before_change(address, bytes);
      break;
    default:
      break;
  }
}

}  // namespace nearfield::heap

using namespace nearfield::heap;

NEARFIELD_EXPORT void* mmap(void* address, std::size_t bytes, int protection, int flags, int file, off_t offset) {
  if (flags & MAP_FIXED) unshare_before_change(address, bytes);
  return next_mmap(address, bytes, protection, flags, file, offset);
}

NEARFIELD_EXPORT void* mmap64(void* address, std::size_t bytes, int protection, int flags, int file, off_t offset) {
  if (flags & MAP_FIXED) unshare_before_change(address, bytes);
  return next_mmap(address, bytes, protection, flags, file, offset);
}

NEARFIELD_EXPORT int munmap(void* address, std::size_t bytes) {
  unshare_before_change(address, bytes);
  return next_munmap(address, bytes);
}

NEARFIELD_EXPORT void* mremap(void* address, std::size_t old_bytes, std::size_t bytes, int flags, ...) {
  static const auto next = next_function<void* (*)(void*, std::size_t, std::size_t, int, ...)>("mremap");
  va_list variable_arguments;
  va_start(variable_arguments, flags);
  void* to = flags & MREMAP_FIXED ? va_arg(variable_arguments, void*) : nullptr;
  va_end(variable_arguments);
  unshare_before_change(address, old_bytes);
  if (to) unshare_before_change(to, bytes);
  return next(address, old_bytes, bytes, flags, to);
}

// NumPy advises huge pages for long arrays from their second page on, since it assumes that the first page also holds
// the allocator's records. The block's first huge page requires the advice for the first page, too.
NEARFIELD_EXPORT int madvise(void* address, std::size_t bytes, int advice) noexcept {
  if (advice == MADV_HUGEPAGE && is_in_second_page_of_block(address)) {
    address = static_cast<char*>(address) - page_bytes();
    bytes += page_bytes();
  }
  unshare_before_advice(address, bytes, advice);
  return next_madvise(address, bytes, advice);
}

NEARFIELD_EXPORT int mprotect(void* address, std::size_t bytes, int protection) noexcept {
  if (protection != (PROT_READ | PROT_WRITE)) unshare_before_change(address, bytes);
  return next_mprotect(address, bytes, protection);
}

NEARFIELD_EXPORT int pkey_mprotect(void* address, std::size_t bytes, int protection, int key) noexcept {
  static const auto next = next_function<int (*)(void*, std::size_t, int, int)>("pkey_mprotect");
  unshare_before_change(address, bytes);
  return next(address, bytes, protection, key);
}

// mlockall() makes all mapped memory resident, even unused parts of peers' files, so the windows of peers are unmapped
// first.
NEARFIELD_EXPORT int mlockall(int flags) noexcept {
  static const auto next = next_function<int (*)(int)>("mlockall");
  unmap_windows();
  return next(flags);
}

// UFFDIO_REGISTER lets the owner of a userfaultfd handle the page faults in a range, so the range becomes private.
NEARFIELD_EXPORT int ioctl(int file, unsigned long request, ...) noexcept {
  static const auto next = next_function<int (*)(int, unsigned long, ...)>("ioctl");
  va_list variable_arguments;
  va_start(variable_arguments, request);
  void* argument = va_arg(variable_arguments, void*);
  va_end(variable_arguments);
  if (request == UFFDIO_REGISTER && argument) {
    const auto& range = static_cast<const uffdio_register*>(argument)->range;
    unshare_before_change(reinterpret_cast<const void*>(range.start), range.len);
  }
  return next(file, request, argument);
}

// Without CLONE_VM, the child shares no memory with its parent. The C library creates threads by other functions.
NEARFIELD_EXPORT int clone(int (*function)(void*), void* stack, int flags, void* argument, ...) noexcept {
  static const auto next = next_function<int (*)(int (*)(void*), void*, int, void*, ...)>("clone");
  va_list variable_arguments;
  va_start(variable_arguments, argument);
  auto* parent = va_arg(variable_arguments, pid_t*);
  void* thread_area = va_arg(variable_arguments, void*);
  auto* child = va_arg(variable_arguments, pid_t*);
  va_end(variable_arguments);
  if (!(flags & CLONE_VM)) unshare_before_fork_call();
  return next(function, stack, flags, argument, parent, thread_area, child);
}

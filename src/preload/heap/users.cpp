#include "preload/heap/users.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/export.h"
#include "preload/heap/status.hpp"

namespace nearfield::heap {
namespace {

// ---- harmless threads

// A record of a thread that is known to be harmless (users.hpp).
struct HarmlessThread {
  std::atomic<pid_t> thread_id{0};  // 0: the record is free; -1: the thread is being started
  void* (*start_function)(void*) = nullptr;
  void* start_argument = nullptr;
};
constexpr int max_harmless_threads = 64;
constinit HarmlessThread harmless_threads[max_harmless_threads];
pthread_key_t thread_end_key;
constinit bool has_thread_end_key = false;

pid_t own_thread_id() { return static_cast<pid_t>(syscall(SYS_gettid)); }

// Returns whether the start function of a thread lies in a library whose threads are harmless.
bool is_harmless_start(const void* function) {
  static constexpr const char* libraries[] = {"libpmix.",    "libprrte.",         "libopen-pal.",     "libopen-rte.",
                                              "libucs.",     "libevent",          "mca_pmix_",        "mca_ess_",
                                              "libopenblas", "libscipy_openblas", "libnearfield_heap"};
  Dl_info info;
  if (!dladdr(function, &info) || !info.dli_fname) return false;
  const char* slash = std::strrchr(info.dli_fname, '/');
  const char* name = slash ? slash + 1 : info.dli_fname;
  for (const char* library : libraries)
    if (std::strncmp(name, library, std::strlen(library)) == 0) return true;
  return false;
}

void* run_harmless_thread(void* record) {
  auto* thread = static_cast<HarmlessThread*>(record);
  thread->thread_id.store(own_thread_id());
  pthread_setspecific(thread_end_key, thread);  // the key's destructor runs however the thread ends
  return thread->start_function(thread->start_argument);
}

HarmlessThread* claim_free_record() {
  for (HarmlessThread& thread : harmless_threads) {
    pid_t none = 0;
    if (thread.thread_id.compare_exchange_strong(none, -1)) return &thread;
  }
  return nullptr;
}

bool is_harmless_thread(pid_t id) {
  for (const HarmlessThread& thread : harmless_threads)
    if (thread.thread_id.load() == id) return true;
  return false;
}

// ---- directories in /proc

struct DirectoryEntry {  // the layout that getdents64 writes; readdir() would allocate memory
  std::uint64_t inode;
  std::int64_t offset;
  unsigned short length;
  unsigned char type;
  char name[1];
};

// Calls `is_harmless` with the number that is the name of each entry of a directory. Returns whether it returned true
// for all of them; false if the directory cannot be read.
template <typename F>
bool are_all_entries_harmless(const char* path, F is_harmless) {
  const int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return false;
  alignas(DirectoryEntry) char buffer[4096];
  bool are_all_harmless = true;
  long length = 0;
  while (are_all_harmless && (length = syscall(SYS_getdents64, folder, buffer, sizeof buffer)) > 0)
    for (long at = 0; are_all_harmless && at < length;) {
      const auto* entry = reinterpret_cast<const DirectoryEntry*>(buffer + at);
      const int number = entry->name[0] == '.' ? -1 : std::atoi(entry->name);
      if (number >= 0 && number != folder) are_all_harmless = is_harmless(number);
      at += entry->length;
    }
  close(folder);
  return are_all_harmless && length == 0;
}

// Returns whether the caller is the program's first thread and all other threads are harmless.
bool has_only_harmless_threads() {
  const pid_t caller = own_thread_id();
  if (caller != getpid()) return false;
  return are_all_entries_harmless("/proc/self/task", [=](int id) { return id == caller || is_harmless_thread(id); });
}

// ---- devices

bool is_harmless_device(const struct stat& file) {
  static constexpr unsigned memory_major = 1, terminal_majors[] = {4, 5, 136, 137, 138, 139, 140, 141, 142, 143},
                            infiniband_major = 231;
  const unsigned number = major(file.st_rdev);
  if (number == memory_major || number == infiniband_major) return true;
  for (const unsigned terminal : terminal_majors)
    if (number == terminal) return true;
  return false;
}

// Returns whether the file behind the descriptor cannot retain addresses of pages.
bool is_harmless_file(int descriptor) {
  struct stat file{};
  if (fstat(descriptor, &file) != 0) return true;  // closed in the meantime
  if (S_ISCHR(file.st_mode)) return is_harmless_device(file);
  if ((file.st_mode & S_IFMT) != 0) return true;  // a file, pipe, socket or block device
  char path[64], name[64];
  std::snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
  const ssize_t length = readlink(path, name, sizeof name - 1);
  if (length < 0) return true;
  name[length] = '\0';
  static constexpr const char* harmless[] = {"[eventfd]", "[eventpoll]", "[timerfd]",    "[signalfd]",
                                             "[pidfd]",   "inotify",     "[perf_event]", "[fanotify]"};
  for (const char* name_part : harmless)
    if (std::strstr(name, name_part)) return true;
  return false;
}

bool has_asynchronous_io() { return dlsym(RTLD_DEFAULT, "io_setup") != nullptr; }

}  // namespace

MemoryUsers find_other_memory_users() {
  const ProcessStatus status;
  if (!status.is_available() || status.read_number_after_key("VmLck") > 0) return MemoryUsers::unknown;
  if (!are_all_entries_harmless("/proc/self/fd", is_harmless_file)) return MemoryUsers::unknown;
  if (status.read_number_after_key("VmPin") > 0 || has_asynchronous_io()) return MemoryUsers::threads;
  return has_only_harmless_threads() ? MemoryUsers::none : MemoryUsers::threads;
}

void start_recording_harmless_threads() {
  has_thread_end_key = pthread_key_create(&thread_end_key, [](void* ended) {
                         static_cast<HarmlessThread*>(ended)->thread_id.store(0);
                       }) == 0;
}

void forget_harmless_threads() {
  for (HarmlessThread& thread : harmless_threads) thread.thread_id.store(0);
}

}  // namespace nearfield::heap

NEARFIELD_EXPORT int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
                                    void* argument) {
  using namespace nearfield::heap;
  static const auto next = reinterpret_cast<int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*)>(
      dlsym(RTLD_NEXT, "pthread_create"));
  HarmlessThread* record =
      has_thread_end_key && is_harmless_start(reinterpret_cast<const void*>(start)) ? claim_free_record() : nullptr;
  if (!record) return next(thread, attributes, start, argument);
  record->start_function = start;
  record->start_argument = argument;
  const int error = next(thread, attributes, run_harmless_thread, record);
  if (error) record->thread_id.store(0);
  return error;
}

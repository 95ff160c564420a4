/* Preloaded, it lets calls on files fail as a full disk, a broken disk or a lost file server does.
   IO_FAULT_CALL is one of open, stat, write, rename, fsync and mkdir, IO_FAULT_PATH a part of the path, IO_FAULT_ERRNO
   the number of the error; the first IO_FAULT_SPARED calls succeed. An open fails only for writing. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static int fails(const char *call, const char *path) {
  static int seen = 0;
  const char *wanted = getenv("IO_FAULT_CALL"), *part = getenv("IO_FAULT_PATH"), *number = getenv("IO_FAULT_ERRNO");
  const char *spared = getenv("IO_FAULT_SPARED");
  if (!wanted || !part || !number || !path || strcmp(wanted, call) != 0 || !strstr(path, part)) return 0;
  if (seen++ < (spared ? atoi(spared) : 0)) return 0;
  errno = atoi(number);
  return 1;
}

static int fails_fd(const char *call, int fd) {
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = 0;
  return fails(call, path);
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

#define OPENS(name)                                                          \
  int name(const char *path, int flags, ...) {                               \
    va_list rest;                                                            \
    va_start(rest, flags);                                                   \
    const mode_t mode = va_arg(rest, mode_t);                                \
    va_end(rest);                                                            \
    return (flags & (O_WRONLY | O_RDWR)) && fails("open", path) ? -1 : NEXT(name)(path, flags, mode);         \
  }
OPENS(open)
OPENS(open64)

#define OPENS_AT(name)                                                       \
  int name(int folder, const char *path, int flags, ...) {                   \
    va_list rest;                                                            \
    va_start(rest, flags);                                                   \
    const mode_t mode = va_arg(rest, mode_t);                                \
    va_end(rest);                                                            \
    return (flags & (O_WRONLY | O_RDWR)) && fails("open", path) ? -1 : NEXT(name)(folder, path, flags, mode); \
  }
OPENS_AT(openat)
OPENS_AT(openat64)

#define STATS(name, type)                                                    \
  int name(const char *path, struct type *found) {                           \
    return fails("stat", path) ? -1 : NEXT(name)(path, found);               \
  }
STATS(stat, stat)
STATS(lstat, stat)
STATS(stat64, stat64)
STATS(lstat64, stat64)

#define STATS_AT(name, type)                                                   \
  int name(int folder, const char *path, struct type *found, int flags) {      \
    return fails("stat", path) ? -1 : NEXT(name)(folder, path, found, flags);  \
  }
STATS_AT(fstatat, stat)
STATS_AT(fstatat64, stat64)

int statx(int folder, const char *path, int flags, unsigned mask, struct statx *found) {
  return fails("stat", path) ? -1 : NEXT(statx)(folder, path, flags, mask, found);
}

ssize_t write(int fd, const void *data, size_t size) {
  return fails_fd("write", fd) ? -1 : NEXT(write)(fd, data, size);
}

int fsync(int fd) { return fails_fd("fsync", fd) ? -1 : NEXT(fsync)(fd); }

int rename(const char *from, const char *to) { return fails("rename", to) ? -1 : NEXT(rename)(from, to); }

int renameat(int one, const char *from, int other, const char *to) {
  return fails("rename", to) ? -1 : NEXT(renameat)(one, from, other, to);
}

int mkdir(const char *path, mode_t mode) { return fails("mkdir", path) ? -1 : NEXT(mkdir)(path, mode); }

int mkdirat(int folder, const char *path, mode_t mode) {
  return fails("mkdir", path) ? -1 : NEXT(mkdirat)(folder, path, mode);
}

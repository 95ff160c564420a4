// A rank's log, and the digests of its memory at each check: of the heap's blocks, the registered stack arrays and the
// static variables. Each time that 2 GiB have been hashed, the number of further checks is halved.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "verify.h"

enum { MAX_ARRAYS = 256 };
static const uint64_t MAX_HASHED_BYTES = (uint64_t)2 << 30;

static struct {
  FILE* file;
  struct nf_array arrays[MAX_ARRAYS];
  int num_arrays;
  long num_checks, check_stride;
  uint64_t hashed_bytes;
} state NF_STATE;

extern char __data_start[], _edata[], __bss_start[], _end[], __start_nf_state[], __stop_nf_state[];

static const char* log_folder(void) { return getenv("NEARFIELD_VERIFY"); }

// Redirects the output of each rank to separate files, since the order in which a launcher prints the lines of several
// ranks varies.
__attribute__((constructor)) static void redirect_output(void) {
  static const char* const stream_names[] = {"stdout", "stderr"};
  for (int i = 0; log_folder() && i < 2; ++i) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.%ld", log_folder(), stream_names[i], (long)getpid());
    int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (file < 0) continue;
    dup2(file, i + 1);
    close(file);
  }
}

void nf_open_log(int rank) {
  char path[4096];
  if (!log_folder()) return;
  snprintf(path, sizeof path, "%s/log.%d", log_folder(), rank);
  state.file = fopen(path, "we");
  state.check_stride = 1;
  nf_log("process %ld", (long)getpid());
  nf_set_access_recording(1);
}

void nf_close_log(void) {
  nf_set_access_recording(0);
  if (state.file) fclose(state.file);
  state.file = NULL;
}

void nf_log(const char* format, ...) {
  if (!state.file) return;
  va_list values;
  va_start(values, format);
  vfprintf(state.file, format, values);
  va_end(values);
  fputc('\n', state.file);
}

static void log_block_digest(const void* data, size_t bytes, unsigned serial) {
  nf_digest digest = {0, 0, 0};
  nf_digest_add_memory(&digest, data, bytes);
  state.hashed_bytes += bytes;
  nf_log("block %u %zu %016lx %016lx", serial, bytes, nf_digest_hash(&digest), nf_hash_histories(data, bytes));
}

static void log_array_digest(const char* name, const char* data, size_t bytes) {
  nf_digest digest = {0, 0, 0};
  nf_digest_add_memory(&digest, data, bytes);
  state.hashed_bytes += bytes;
  nf_log("array %s %zu %016lx %016lx", name, bytes, nf_digest_hash(&digest), nf_hash_histories(data, bytes));
}

// Logs the digest of a section of static variables, without those of this layer (NF_STATE), which are contiguous.
static void log_static_variables(const char* from, const char* to) {
  if (from <= __start_nf_state && __stop_nf_state <= to) {
    log_array_digest("static", from, (size_t)(__start_nf_state - from));
    from = __stop_nf_state;
  }
  log_array_digest("static", from, (size_t)(to - from));
}

void nf_check_memory(const char* where) {
  if (!state.file || state.num_checks++ % state.check_stride) return;
  nf_log("place %s", where);
  nf_for_each_block(log_block_digest);
  for (int i = 0; i < state.num_arrays; ++i)
    log_array_digest(state.arrays[i].name, state.arrays[i].data, state.arrays[i].bytes);
  log_static_variables(__data_start, _edata);
  log_static_variables(__bss_start, _end);
  if (state.hashed_bytes > MAX_HASHED_BYTES) state.check_stride *= 2, state.hashed_bytes = 0;
}

void nf_log_freed_block(const void* data, size_t bytes, unsigned serial) {
  // bytes; shorter blocks, such as strings and objects, are checked only by nf_check_memory()
  enum { MIN_LOGGED_BYTES = 256 };
  if (!state.file || bytes < MIN_LOGGED_BYTES) return;
  nf_log("place free");
  log_block_digest(data, bytes, serial);
}

struct nf_array nf_register_array(void* data, size_t bytes, const char* name, int is_uninitialised) {
  struct nf_array array = {data, bytes, name};
  if (is_uninitialised) memset(data, 0, bytes);
  nf_clear_histories(data, bytes);
  if (state.num_arrays < MAX_ARRAYS) state.arrays[state.num_arrays] = array;
  ++state.num_arrays;
  return array;
}

void nf_unregister_array(struct nf_array* array) {
  (void)array;
  if (--state.num_arrays < 0) state.num_arrays = 0;
}

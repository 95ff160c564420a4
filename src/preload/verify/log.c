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

enum { ARRAYS = 256 };
static const uint64_t FEW_BYTES = (uint64_t)2 << 30;

static struct {
  FILE* file;
  struct nf_array arrays[ARRAYS];
  int array_count;
  long places, stride;
  uint64_t hashed;
} state NF_STATE;

extern char __data_start[], _edata[], __bss_start[], _end[], __start_nf_state[], __stop_nf_state[];

static const char* log_folder(void) { return getenv("NEARFIELD_VERIFY"); }

// Redirects the rank's output to files of its own, since the order in which a launcher prints the lines of several
// ranks varies.
__attribute__((constructor)) static void redirect_output(void) {
  static const char* const names[] = {"stdout", "stderr"};
  for (int i = 0; log_folder() && i < 2; ++i) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.%ld", log_folder(), names[i], (long)getpid());
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
  state.stride = 1;
  nf_log("process %ld", (long)getpid());
  nf_record_accesses(1);
}

void nf_close_log(void) {
  nf_record_accesses(0);
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

static void check_block(const void* data, size_t bytes, unsigned serial) {
  nf_digest digest = {0, 0, 0};
  nf_digest_add_memory(&digest, data, bytes);
  state.hashed += bytes;
  nf_log("block %u %zu %016lx %016lx", serial, bytes, nf_digest_hash(&digest), nf_hash_histories(data, bytes));
}

static void check_array(const char* name, const char* data, size_t bytes) {
  nf_digest digest = {0, 0, 0};
  nf_digest_add_memory(&digest, data, bytes);
  state.hashed += bytes;
  nf_log("array %s %zu %016lx %016lx", name, bytes, nf_digest_hash(&digest), nf_hash_histories(data, bytes));
}

// Logs the digest of a section of static variables, without those of this layer (NF_STATE), which are contiguous.
static void check_static(const char* from, const char* to) {
  if (from <= __start_nf_state && __stop_nf_state <= to) {
    check_array("static", from, (size_t)(__start_nf_state - from));
    from = __stop_nf_state;
  }
  check_array("static", from, (size_t)(to - from));
}

void nf_check_memory(const char* where) {
  if (!state.file || state.places++ % state.stride) return;
  nf_log("place %s", where);
  nf_each_block(check_block);
  for (int i = 0; i < state.array_count; ++i)
    check_array(state.arrays[i].name, state.arrays[i].data, state.arrays[i].bytes);
  check_static(__data_start, _edata);
  check_static(__bss_start, _end);
  if (state.hashed > FEW_BYTES) state.stride *= 2, state.hashed = 0;
}

void nf_check_freed(const void* data, size_t bytes, unsigned serial) {
  enum { SMALL = 256 };  // bytes; shorter blocks, such as strings and objects, are checked only by nf_check_memory()
  if (!state.file || bytes < SMALL) return;
  nf_log("place free");
  check_block(data, bytes, serial);
}

struct nf_array nf_register_array(void* data, size_t bytes, const char* name, int is_uninitialised) {
  struct nf_array array = {data, bytes, name};
  if (is_uninitialised) memset(data, 0, bytes);
  nf_forget_accesses(data, bytes);
  if (state.array_count < ARRAYS) state.arrays[state.array_count] = array;
  ++state.array_count;
  return array;
}

void nf_unregister_array(struct nf_array* array) {
  (void)array;
  if (--state.array_count < 0) state.array_count = 0;
}

// Stores the histories of all bytes that the recorded thread has accessed since MPI_Init, in a two-level table of pages
// that are allocated at the first access.
#define _GNU_SOURCE
#include "accesses.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "verify.h"

enum { PAGE_BITS = 12, PAGE = 1 << PAGE_BITS, LEAF_BITS = 17, ROOT_BITS = 47 - LEAF_BITS - PAGE_BITS };

// The histories of one page of the program's memory. For each byte, `history` is a hash of the byte's earlier values
// and of how often each of them was read; `reads` counts the reads of the present value.
typedef struct {
  uint32_t history[PAGE], reads[PAGE];
} page;

static struct {
  page*** root;  // indexed by the highest bits of an address, its elements by the next bits
  uintptr_t last;
  page* last_page;
} shadow NF_STATE;
static __thread int is_recorded;

static void* map_zeroed(size_t bytes) {
  void* made = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (made == MAP_FAILED) abort();
  return made;
}

// Returns the histories of the page that contains an address. If there are none yet, allocates them or, if
// `may_allocate` is 0, returns NULL.
static page* histories_of_page(uintptr_t address, int may_allocate) {
  uintptr_t number = address >> PAGE_BITS;
  if (number == shadow.last && shadow.last_page) return shadow.last_page;
  if (!shadow.root) shadow.root = map_zeroed(sizeof(page**) << ROOT_BITS);
  page*** leaf = &shadow.root[(number >> LEAF_BITS) & (((uintptr_t)1 << ROOT_BITS) - 1)];
  if (!*leaf && !may_allocate) return NULL;
  if (!*leaf) *leaf = map_zeroed(sizeof(page*) << LEAF_BITS);
  page** found = &(*leaf)[number & (((uintptr_t)1 << LEAF_BITS) - 1)];
  if (!*found && may_allocate) *found = map_zeroed(sizeof(page));
  if (*found) shadow.last = number, shadow.last_page = *found;
  return *found;
}

void nf_record_accesses(int whether) { is_recorded = whether; }

// A part of a range of memory that lies in one page.
typedef struct {
  uintptr_t address;
  size_t first, count;  // offset of the first byte in the page, and number of bytes
  page* of;             // the histories of the page
} part;

// Advances `at` to the next part of the range that ends at `end`. The first call requires an empty part at the begin of
// the range. Returns 0 if there is no further part.
static int next_part(part* at, uintptr_t end, int may_allocate) {
  at->address += at->count;
  if (at->address >= end) return 0;
  at->first = at->address % PAGE;
  at->count = PAGE - at->first < end - at->address ? PAGE - at->first : end - at->address;
  at->of = histories_of_page(at->address, may_allocate);
  return 1;
}

void nf_add_read(const void* data, size_t bytes) {
  if (!is_recorded) return;
  for (part at = {(uintptr_t)data, 0, 0, NULL}; next_part(&at, (uintptr_t)data + bytes, 1);)
    for (size_t i = 0; i < at.count; ++i) ++at.of->reads[at.first + i];
}

// Updates the histories of bytes that are about to get new values.
static void record_overwrite(page* of, size_t first, size_t count, const unsigned char* values) {
  for (size_t i = first; i < first + count; ++i) {
    uint32_t mixed = (of->history[i] ^ (of->reads[i] << 8 | *values++)) * 0x9E3779B1u + 1;
    of->history[i] = mixed ^ mixed >> 15;
    of->reads[i] = 0;
  }
}

void nf_add_write(const void* data, size_t bytes) {
  static const unsigned char zeros[8];
  if (!is_recorded) return;
  for (part at = {(uintptr_t)data, 0, 0, NULL}; next_part(&at, (uintptr_t)data + bytes, 1);) {
    const unsigned char* values = (const unsigned char*)at.address;
    for (size_t i = 0, step; i < at.count; i += step) {
      uint64_t word = 0;
      step = 8 - (at.first + i) % 8;
      if (step > at.count - i) step = at.count - i;
      if (step == 8) __builtin_memcpy(&word, values + i, 8);
      record_overwrite(at.of, at.first + i, step,
                       nf_is_address(word) ? zeros : values + i);  // addresses differ between runs
    }
  }
}

void nf_forget_accesses(const void* data, size_t bytes) {
  for (part at = {(uintptr_t)data, 0, 0, NULL}; next_part(&at, (uintptr_t)data + bytes, 0);) {
    if (!at.of) continue;
    memset(at.of->history + at.first, 0, at.count * sizeof at.of->history[0]);
    memset(at.of->reads + at.first, 0, at.count * sizeof at.of->reads[0]);
  }
}

uint64_t nf_hash_histories(const void* data, size_t bytes) {
  uint64_t sum = 0;
  for (part at = {(uintptr_t)data, 0, 0, NULL}; next_part(&at, (uintptr_t)data + bytes, 0);) {
    uint64_t place = at.address - (uintptr_t)data;
    for (size_t i = 0; at.of && i < at.count; ++i) {
      uint64_t history = at.of->history[at.first + i];
      uint64_t mixed = history ? ((place + i) << 32 | history) * 0x9E3779B97F4A7C15u : 0;
      sum += mixed ^ mixed >> 29;
    }
  }
  return sum;
}

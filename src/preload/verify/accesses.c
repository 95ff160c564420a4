// Stores the histories of all bytes that the recorded thread has accessed since MPI_Init, in a two-level table of pages
// that are allocated at the first access.
#define _GNU_SOURCE
#include "accesses.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "verify.h"

enum { PAGE_BITS = 12, PAGE_BYTES = 1 << PAGE_BITS, LEAF_BITS = 17, ROOT_BITS = 47 - LEAF_BITS - PAGE_BITS };

// The histories of one page of the program's memory. For each byte, `history` is a hash of the byte's earlier values
// and of how often each of them was read; `reads` counts the reads of the present value.
typedef struct {
  uint32_t history[PAGE_BYTES], reads[PAGE_BYTES];
} page_histories;

static struct {
  page_histories*** root;  // indexed by the highest bits of an address, its elements by the next bits
  uintptr_t last_page_number;
  page_histories* last_page;
} shadow NF_STATE;
static __thread int is_recorded;

static void* map_zeroed(size_t bytes) {
  void* memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) abort();
  return memory;
}

// Returns the histories of the page that contains an address. If there are none yet, allocates them or, if
// `may_allocate` is 0, returns NULL.
static page_histories* histories_of_page(uintptr_t address, int may_allocate) {
  uintptr_t page_number = address >> PAGE_BITS;
  if (page_number == shadow.last_page_number && shadow.last_page) return shadow.last_page;
  if (!shadow.root) shadow.root = map_zeroed(sizeof(page_histories**) << ROOT_BITS);
  page_histories*** leaf = &shadow.root[(page_number >> LEAF_BITS) & (((uintptr_t)1 << ROOT_BITS) - 1)];
  if (!*leaf && !may_allocate) return NULL;
  if (!*leaf) *leaf = map_zeroed(sizeof(page_histories*) << LEAF_BITS);
  page_histories** entry = &(*leaf)[page_number & (((uintptr_t)1 << LEAF_BITS) - 1)];
  if (!*entry && may_allocate) *entry = map_zeroed(sizeof(page_histories));
  if (*entry) shadow.last_page_number = page_number, shadow.last_page = *entry;
  return *entry;
}

void nf_set_access_recording(int is_on) { is_recorded = is_on; }

// A part of a range of memory that lies in one page.
typedef struct {
  uintptr_t address;
  size_t first, count;        // offset of the first byte in the page, and number of bytes
  page_histories* histories;  // the histories of the page
} page_part;

// Advances `part` to the next part of the range that ends at `end`. The first call requires an empty part at the start
// of the range. Returns 0 if there is no further part.
static int advance_to_next_part(page_part* part, uintptr_t end, int may_allocate) {
  part->address += part->count;
  if (part->address >= end) return 0;
  part->first = part->address % PAGE_BYTES;
  part->count = PAGE_BYTES - part->first < end - part->address ? PAGE_BYTES - part->first : end - part->address;
  part->histories = histories_of_page(part->address, may_allocate);
  return 1;
}

void nf_add_read(const void* data, size_t bytes) {
  if (!is_recorded) return;
  for (page_part part = {(uintptr_t)data, 0, 0, NULL}; advance_to_next_part(&part, (uintptr_t)data + bytes, 1);)
    for (size_t i = 0; i < part.count; ++i) ++part.histories->reads[part.first + i];
}

// Updates the histories of bytes that are about to get new values.
static void record_overwrite(page_histories* histories, size_t first, size_t count, const unsigned char* values) {
  for (size_t i = first; i < first + count; ++i) {
    uint32_t hash = (histories->history[i] ^ (histories->reads[i] << 8 | *values++)) * 0x9E3779B1u + 1;
    histories->history[i] = hash ^ hash >> 15;
    histories->reads[i] = 0;
  }
}

void nf_add_write(const void* data, size_t bytes) {
  static const unsigned char zeros[8];
  if (!is_recorded) return;
  for (page_part part = {(uintptr_t)data, 0, 0, NULL}; advance_to_next_part(&part, (uintptr_t)data + bytes, 1);) {
    const unsigned char* values = (const unsigned char*)part.address;
    for (size_t i = 0, num_bytes; i < part.count; i += num_bytes) {
      uint64_t word = 0;
      num_bytes = 8 - (part.first + i) % 8;
      if (num_bytes > part.count - i) num_bytes = part.count - i;
      if (num_bytes == 8) __builtin_memcpy(&word, values + i, 8);
      record_overwrite(part.histories, part.first + i, num_bytes,
                       nf_may_be_address(word) ? zeros : values + i);  // addresses differ between runs
    }
  }
}

void nf_clear_histories(const void* data, size_t bytes) {
  for (page_part part = {(uintptr_t)data, 0, 0, NULL}; advance_to_next_part(&part, (uintptr_t)data + bytes, 0);) {
    if (!part.histories) continue;
    memset(part.histories->history + part.first, 0, part.count * sizeof part.histories->history[0]);
    memset(part.histories->reads + part.first, 0, part.count * sizeof part.histories->reads[0]);
  }
}

uint64_t nf_hash_histories(const void* data, size_t bytes) {
  uint64_t sum = 0;
  for (page_part part = {(uintptr_t)data, 0, 0, NULL}; advance_to_next_part(&part, (uintptr_t)data + bytes, 0);) {
    uint64_t offset = part.address - (uintptr_t)data;
    for (size_t i = 0; part.histories && i < part.count; ++i) {
      uint64_t history = part.histories->history[part.first + i];
      uint64_t hash = history ? ((offset + i) << 32 | history) * 0x9E3779B97F4A7C15u : 0;
      sum += hash ^ hash >> 29;
    }
  }
  return sum;
}

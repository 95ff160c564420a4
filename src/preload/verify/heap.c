// The program's heap: zeroed blocks at the same addresses in each run, in one range of memory. The linker redirects the
// program's own calls of malloc and related functions to this file (--wrap); libraries allocate from the C library's
// heap.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "verify.h"

enum { HEADER_BYTES = 64, NUM_SIZE_CLASSES = 48, PAGE_BYTES = 4096 };
#define HEAP_BASE ((char*)0x100000000000)  // far from where Linux puts programs, libraries and stacks

typedef struct block {
  size_t bytes, capacity, padding;  // `padding`: bytes in front of the data, for an alignment of more than HEADER_BYTES
  unsigned serial;
  int is_live;
  struct block* next;  // in the free list of the size class
} block;

static struct {
  char *top, *end;
  block* free_blocks[NUM_SIZE_CLASSES];
  unsigned serial;
  pthread_mutex_t mutex;
}* heap NF_STATE;

void* __real_realloc(void*, size_t);
void __real_free(void*);

static void open_heap(void) {
  for (size_t size = (size_t)1 << 40; size >= (size_t)1 << 28; size /= 4) {
    void* mapped = mmap(HEAP_BASE, size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (mapped != HEAP_BASE) continue;
    heap = mapped;
    heap->top = HEAP_BASE + PAGE_BYTES;
    heap->end = HEAP_BASE + size;
    return;
  }
  abort();
}

static int size_class_of(size_t bytes) { return 64 - __builtin_clzl(bytes | 1); }

static block* reuse_or_create_block(size_t bytes) {
  for (block** at = &heap->free_blocks[size_class_of(bytes)]; *at; at = &(*at)->next) {
    block* block_header = *at;
    if (block_header->capacity < bytes) continue;
    *at = block_header->next;
    return block_header;
  }
  size_t capacity = (bytes + HEADER_BYTES - 1) / HEADER_BYTES * HEADER_BYTES;
  if (capacity > (size_t)(heap->end - heap->top - HEADER_BYTES)) return NULL;
  block* created = (block*)heap->top;
  heap->top += HEADER_BYTES + capacity;
  created->capacity = capacity;
  return created;
}

static void* allocate_block(size_t bytes, size_t alignment) {
  if (!heap) open_heap();
  if (alignment < HEADER_BYTES) alignment = HEADER_BYTES;
  pthread_mutex_lock(&heap->mutex);
  block* block_header = reuse_or_create_block(bytes + alignment - HEADER_BYTES);
  if (block_header) {
    char* data = (char*)block_header + HEADER_BYTES;
    block_header->padding = -(uintptr_t)data % alignment;
    block_header->bytes = bytes;
    block_header->serial = ++heap->serial;
    block_header->is_live = 1;
    if (block_header->padding) {  // block_of() looks for a header in front of the data
      block* copy = (block*)(data + block_header->padding - HEADER_BYTES);
      *copy = *block_header;
    }
  }
  pthread_mutex_unlock(&heap->mutex);
  if (!block_header) errno = ENOMEM;
  return block_header ? (char*)block_header + HEADER_BYTES + block_header->padding : NULL;
}

static int is_in_heap(const void* data) { return heap && (char*)data >= HEAP_BASE && (char*)data < heap->end; }

static block* block_of(void* data) {
  block* block_header = (block*)((char*)data - HEADER_BYTES);
  return (block*)((char*)block_header - block_header->padding);
}

static void release_block(void* data) {
  block* block_header = block_of(data);
  if (!block_header->is_live) return;
  nf_log_freed_block(data, block_header->bytes, block_header->serial);
  nf_clear_histories(data, block_header->bytes);
  pthread_mutex_lock(&heap->mutex);
  memset((char*)block_header + HEADER_BYTES, 0, block_header->capacity);
  block_header->is_live = 0;
  block_header->next = heap->free_blocks[size_class_of(block_header->capacity)];
  heap->free_blocks[size_class_of(block_header->capacity)] = block_header;
  pthread_mutex_unlock(&heap->mutex);
}

void nf_for_each_block(void (*visit)(const void* data, size_t bytes, unsigned serial)) {
  if (!heap) return;
  for (char* at = HEAP_BASE + PAGE_BYTES; at < heap->top; at += HEADER_BYTES + ((block*)at)->capacity) {
    const block* header = (const block*)at;
    if (header->is_live) visit(at + HEADER_BYTES + header->padding, header->bytes, header->serial);
  }
}

void* __wrap_malloc(size_t bytes) { return allocate_block(bytes, HEADER_BYTES); }

void* __wrap_calloc(size_t count, size_t bytes) {
  size_t total_bytes;
  return __builtin_mul_overflow(count, bytes, &total_bytes) ? NULL : allocate_block(total_bytes, HEADER_BYTES);
}

void __wrap_free(void* data) {
  if (is_in_heap(data)) {
    release_block(data);
  } else {
    __real_free(data);
  }
}

void* __wrap_realloc(void* data, size_t bytes) {
  if (data && !is_in_heap(data)) return __real_realloc(data, bytes);
  void* new_data = allocate_block(bytes, HEADER_BYTES);
  if (!new_data || !data) return new_data;
  size_t old_bytes = block_of(data)->bytes;
  memcpy(new_data, data, old_bytes < bytes ? old_bytes : bytes);
  release_block(data);
  return new_data;
}

void* __wrap_aligned_alloc(size_t alignment, size_t bytes) { return allocate_block(bytes, alignment); }
void* __wrap_memalign(size_t alignment, size_t bytes) { return allocate_block(bytes, alignment); }
void* __wrap__mm_malloc(size_t bytes, size_t alignment) { return allocate_block(bytes, alignment); }
void __wrap__mm_free(void* data) { __wrap_free(data); }

int __wrap_posix_memalign(void** data, size_t alignment, size_t bytes) {
  void* new_data = allocate_block(bytes, alignment);
  if (new_data) *data = new_data;
  return new_data ? 0 : ENOMEM;
}

// C++'s operators new and delete. A C++ library frees blocks that the program has allocated and vice versa, so these
// definitions replace the library's own.
void* _Znwm(size_t bytes) { return allocate_block(bytes, HEADER_BYTES); }
void* _Znam(size_t bytes) { return allocate_block(bytes, HEADER_BYTES); }
void* _ZnwmRKSt9nothrow_t(size_t bytes, void* tag) { return (void)tag, allocate_block(bytes, HEADER_BYTES); }
void* _ZnamRKSt9nothrow_t(size_t bytes, void* tag) { return (void)tag, allocate_block(bytes, HEADER_BYTES); }
void* _ZnwmSt11align_val_t(size_t bytes, size_t alignment) { return allocate_block(bytes, alignment); }
void* _ZnamSt11align_val_t(size_t bytes, size_t alignment) { return allocate_block(bytes, alignment); }
void _ZdlPv(void* data) { __wrap_free(data); }
void _ZdaPv(void* data) { __wrap_free(data); }
void _ZdlPvm(void* data, size_t bytes) { (void)bytes, __wrap_free(data); }
void _ZdaPvm(void* data, size_t bytes) { (void)bytes, __wrap_free(data); }
void _ZdlPvSt11align_val_t(void* data, size_t alignment) { (void)alignment, __wrap_free(data); }
void _ZdaPvSt11align_val_t(void* data, size_t alignment) { (void)alignment, __wrap_free(data); }
void _ZdlPvmSt11align_val_t(void* data, size_t bytes, size_t alignment) {
  (void)bytes, (void)alignment, __wrap_free(data);
}
void _ZdaPvmSt11align_val_t(void* data, size_t bytes, size_t alignment) {
  (void)bytes, (void)alignment, __wrap_free(data);
}

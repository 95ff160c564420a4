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

enum { HEADER = 64, CLASSES = 48, PAGE = 4096 };
#define BASE ((char*)0x100000000000)  // far from where Linux puts programs, libraries and stacks

typedef struct block {
  size_t bytes, capacity, padding;  // `padding`: bytes in front of the data, for an alignment of more than HEADER
  unsigned serial;
  int is_live;
  struct block* next;  // in the free list of the size class
} block;

static struct {
  char *top, *end;
  block* free_blocks[CLASSES];
  unsigned serial;
  pthread_mutex_t mutex;
}* heap NF_STATE;

void* __real_realloc(void*, size_t);
void __real_free(void*);

static void open_heap(void) {
  for (size_t size = (size_t)1 << 40; size >= (size_t)1 << 28; size /= 4) {
    void* got = mmap(BASE, size, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (got != BASE) continue;
    heap = got;
    heap->top = BASE + PAGE;
    heap->end = BASE + size;
    return;
  }
  abort();
}

static int class_of(size_t bytes) { return 64 - __builtin_clzl(bytes | 1); }

static block* take_block(size_t bytes) {
  for (block** at = &heap->free_blocks[class_of(bytes)]; *at; at = &(*at)->next) {
    block* found = *at;
    if (found->capacity < bytes) continue;
    *at = found->next;
    return found;
  }
  size_t capacity = (bytes + HEADER - 1) / HEADER * HEADER;
  if (capacity > (size_t)(heap->end - heap->top - HEADER)) return NULL;
  block* made = (block*)heap->top;
  heap->top += HEADER + capacity;
  made->capacity = capacity;
  return made;
}

static void* allocate(size_t bytes, size_t alignment) {
  if (!heap) open_heap();
  if (alignment < HEADER) alignment = HEADER;
  pthread_mutex_lock(&heap->mutex);
  block* found = take_block(bytes + alignment - HEADER);
  if (found) {
    char* data = (char*)found + HEADER;
    found->padding = -(uintptr_t)data % alignment;
    found->bytes = bytes;
    found->serial = ++heap->serial;
    found->is_live = 1;
    if (found->padding) {  // block_of() looks for a header in front of the data
      block* copy = (block*)(data + found->padding - HEADER);
      *copy = *found;
    }
  }
  pthread_mutex_unlock(&heap->mutex);
  if (!found) errno = ENOMEM;
  return found ? (char*)found + HEADER + found->padding : NULL;
}

static int is_in_heap(const void* data) { return heap && (char*)data >= BASE && (char*)data < heap->end; }

static block* block_of(void* data) {
  block* found = (block*)((char*)data - HEADER);
  return (block*)((char*)found - found->padding);
}

static void release(void* data) {
  block* found = block_of(data);
  if (!found->is_live) return;
  nf_check_freed(data, found->bytes, found->serial);
  nf_forget_accesses(data, found->bytes);
  pthread_mutex_lock(&heap->mutex);
  memset((char*)found + HEADER, 0, found->capacity);
  found->is_live = 0;
  found->next = heap->free_blocks[class_of(found->capacity)];
  heap->free_blocks[class_of(found->capacity)] = found;
  pthread_mutex_unlock(&heap->mutex);
}

void nf_each_block(void (*visit)(const void* data, size_t bytes, unsigned serial)) {
  if (!heap) return;
  for (char* at = BASE + PAGE; at < heap->top; at += HEADER + ((block*)at)->capacity) {
    const block* here = (const block*)at;
    if (here->is_live) visit(at + HEADER + here->padding, here->bytes, here->serial);
  }
}

void* __wrap_malloc(size_t bytes) { return allocate(bytes, HEADER); }

void* __wrap_calloc(size_t count, size_t bytes) {
  size_t all;
  return __builtin_mul_overflow(count, bytes, &all) ? NULL : allocate(all, HEADER);
}

void __wrap_free(void* data) {
  if (is_in_heap(data)) {
    release(data);
  } else {
    __real_free(data);
  }
}

void* __wrap_realloc(void* data, size_t bytes) {
  if (data && !is_in_heap(data)) return __real_realloc(data, bytes);
  void* made = allocate(bytes, HEADER);
  if (!made || !data) return made;
  size_t before = block_of(data)->bytes;
  memcpy(made, data, before < bytes ? before : bytes);
  release(data);
  return made;
}

void* __wrap_aligned_alloc(size_t alignment, size_t bytes) { return allocate(bytes, alignment); }
void* __wrap_memalign(size_t alignment, size_t bytes) { return allocate(bytes, alignment); }
void* __wrap__mm_malloc(size_t bytes, size_t alignment) { return allocate(bytes, alignment); }
void __wrap__mm_free(void* data) { __wrap_free(data); }

int __wrap_posix_memalign(void** data, size_t alignment, size_t bytes) {
  void* made = allocate(bytes, alignment);
  if (made) *data = made;
  return made ? 0 : ENOMEM;
}

// C++'s operators new and delete. A C++ library frees blocks that the program has allocated and vice versa, so these
// definitions replace the library's own.
void* _Znwm(size_t bytes) { return allocate(bytes, HEADER); }
void* _Znam(size_t bytes) { return allocate(bytes, HEADER); }
void* _ZnwmRKSt9nothrow_t(size_t bytes, void* tag) { return (void)tag, allocate(bytes, HEADER); }
void* _ZnamRKSt9nothrow_t(size_t bytes, void* tag) { return (void)tag, allocate(bytes, HEADER); }
void* _ZnwmSt11align_val_t(size_t bytes, size_t alignment) { return allocate(bytes, alignment); }
void* _ZnamSt11align_val_t(size_t bytes, size_t alignment) { return allocate(bytes, alignment); }
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

// An allocator that counts what is in use, as a library to preload: it puts a header before each block, and has malloc,
// free, calloc and realloc, but no malloc_usable_size.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

enum { header = 16 };
static size_t in_use;

static void* (*next_malloc)(size_t);
static void (*next_free)(void*);

static void look_up(void) {
  if (next_malloc) return;
  next_free = (void (*)(void*))dlsym(RTLD_NEXT, "free");
  next_malloc = (void* (*)(size_t))dlsym(RTLD_NEXT, "malloc");
}

void* malloc(size_t bytes) {
  look_up();
  char* block = next_malloc(bytes + header);
  if (!block) return NULL;
  *(size_t*)block = bytes;
  in_use += bytes;
  return block + header;
}

void free(void* block) {
  if (!block) return;
  in_use -= *(size_t*)((char*)block - header);
  next_free((char*)block - header);
}

void* calloc(size_t count, size_t each) {
  void* block = malloc(count * each);
  return block ? memset(block, 0, count * each) : NULL;
}

void* realloc(void* old, size_t bytes) {
  void* block = malloc(bytes);
  if (!block || !old) return block;
  const size_t had = *(size_t*)((char*)old - header);
  memcpy(block, old, had < bytes ? had : bytes);
  free(old);
  return block;
}

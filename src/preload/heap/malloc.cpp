// Interposes on the malloc family of the C library or of the program's own allocator (the interposed allocator): long
// blocks come from the shared heap, all others from the interposed allocator.
#include <dlfcn.h>
#include <malloc.h>

#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/export.h"
#include "preload/heap/heap.hpp"
#include "preload/heap/region.hpp"

namespace nearfield::heap {
namespace {

// The functions of the interposed allocator, looked up at the first call, which may precede all constructors.
struct NextAllocator {
  void* (*malloc)(std::size_t) = nullptr;
  void (*free)(void*) = nullptr;
  void* (*calloc)(std::size_t, std::size_t) = nullptr;
  void* (*realloc)(void*, std::size_t) = nullptr;
  void* (*memalign)(std::size_t, std::size_t) = nullptr;
  void* (*aligned_alloc)(std::size_t, std::size_t) = nullptr;
  std::size_t (*malloc_usable_size)(void*) = nullptr;
  int (*malloc_trim)(std::size_t) = nullptr;
  bool has_usable_size = false;  // malloc_usable_size belongs to the same library as malloc
};

constinit NextAllocator next_allocator;

// Memory for blocks that dlsym() allocates during the lookup of the functions; never freed.
alignas(16) constinit char early_memory[16384];
constinit std::size_t early_memory_used_bytes = 0;

bool is_early_block(const void* block) {
  return reinterpret_cast<std::uintptr_t>(block) - reinterpret_cast<std::uintptr_t>(early_memory) < sizeof early_memory;
}

void* allocate_early(std::size_t bytes) {
  const std::size_t rounded = (bytes + 15) / 16 * 16;
  if (rounded > sizeof early_memory - early_memory_used_bytes) return nullptr;
  char* block = early_memory + early_memory_used_bytes;
  early_memory_used_bytes += rounded;
  return block;
}

template <typename F>
void look_up_function(F*& function, const char* name) {
  function = reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
}

// Returns whether both functions lie in the same library. A counting allocator may define malloc but not
// malloc_usable_size; the malloc_usable_size of another library then misreads its blocks.
bool are_in_same_library(const void* first_function, const void* second_function) {
  Dl_info first, second;
  return dladdr(first_function, &first) && dladdr(second_function, &second) && first.dli_fbase == second.dli_fbase;
}

// Looks up the interposed allocator with dlsym(). dlsym() may itself allocate memory: returns false for such a nested
// call.
[[gnu::noinline]] bool find_next_allocator() {
  static bool is_looking = false;
  if (next_allocator.malloc) return true;
  if (is_looking) return false;
  is_looking = true;
  NextAllocator functions;
  look_up_function(functions.free, "free");
  look_up_function(functions.calloc, "calloc");
  look_up_function(functions.realloc, "realloc");
  look_up_function(functions.memalign, "memalign");
  look_up_function(functions.aligned_alloc, "aligned_alloc");
  look_up_function(functions.malloc_usable_size, "malloc_usable_size");
  look_up_function(functions.malloc_trim, "malloc_trim");
  look_up_function(functions.malloc, "malloc");
  functions.has_usable_size = are_in_same_library(reinterpret_cast<const void*>(functions.malloc),
                                                  reinterpret_cast<const void*>(functions.malloc_usable_size));
  next_allocator = functions;
  return true;
}

void* libc_malloc(std::size_t bytes) {
  if (__builtin_expect(!next_allocator.malloc, 0) && !find_next_allocator()) return allocate_early(bytes);
  return next_allocator.malloc(bytes);
}

[[gnu::noinline]] void* heap_malloc(std::size_t bytes) {
  void* block = allocate(bytes);
  return block ? block : libc_malloc(bytes);
}

[[gnu::noinline]] void heap_free(void* block) {
  const int error = errno;  // programs may rely on free() to preserve errno
  release_block(block);
  errno = error;
}

void* allocate_aligned(std::size_t alignment, std::size_t bytes) {
  if (bytes >= min_heap_block_bytes)
    if (void* block = allocate(bytes, alignment)) return block;
  if (!next_allocator.malloc && !find_next_allocator()) return nullptr;
  return next_allocator.memalign(alignment, bytes);
}

// realloc() leaves blocks from this size on in the C library's heap, which extends them without a copy.
constexpr std::size_t min_libc_realloc_bytes = std::size_t{1} << 20;

// Moves the content of a block to a new block of `bytes` bytes, which may lie in the other heap, and frees the old
// block. Returns nullptr if there is no memory.
void* move_block(void* old, std::size_t old_bytes, std::size_t bytes) {
  void* block = bytes >= min_heap_block_bytes ? heap_malloc(bytes) : libc_malloc(bytes);
  if (!block) return nullptr;
  const std::size_t count = old_bytes < bytes ? old_bytes : bytes;
  if (is_in_heap(old)) {
    move_block_content(block, old, count);
    heap_free(old);
  } else {
    std::memcpy(block, old, count);
    if (!is_early_block(old)) next_allocator.free(old);
  }
  return block;
}

std::size_t usable_block_bytes(void* block) {
  if (is_in_heap(block)) return requested_block_bytes(block);
  if (is_early_block(block))
    return static_cast<std::size_t>(early_memory + early_memory_used_bytes - static_cast<char*>(block));
  return next_allocator.malloc_usable_size(block);
}

}  // namespace

NEARFIELD_EXPORT void* malloc(std::size_t bytes) {
  if (__builtin_expect(bytes >= min_heap_block_bytes, 0)) return heap_malloc(bytes);
  if (__builtin_expect(!next_allocator.malloc, 0)) return libc_malloc(bytes);
  return next_allocator.malloc(bytes);
}

NEARFIELD_EXPORT void free(void* block) {
  if (__builtin_expect(is_in_heap(block), 0)) return heap_free(block);
  if (__builtin_expect(!next_allocator.free, 0) || is_early_block(block)) return;
  next_allocator.free(block);
}

NEARFIELD_EXPORT void* calloc(std::size_t count, std::size_t element_bytes) {
  std::size_t bytes = 0;
  if (!__builtin_mul_overflow(count, element_bytes, &bytes) && bytes >= min_heap_block_bytes)
    if (void* block = allocate_zeroed(bytes)) return block;
  if (__builtin_expect(!next_allocator.malloc, 0) && !find_next_allocator())
    return allocate_early(bytes);  // static memory is zero
  return next_allocator.calloc(count, element_bytes);
}

NEARFIELD_EXPORT void* realloc(void* old, std::size_t bytes) {
  if (!old) return malloc(bytes);
  if (!is_in_heap(old) && !is_early_block(old)) {
    if (bytes < min_heap_block_bytes || !next_allocator.has_usable_size) return next_allocator.realloc(old, bytes);
    const std::size_t old_bytes = usable_block_bytes(old);
    return old_bytes < min_libc_realloc_bytes ? move_block(old, old_bytes, bytes) : next_allocator.realloc(old, bytes);
  }
  if (bytes == 0) {
    free(old);
    return nullptr;
  }
  if (is_in_heap(old) && bytes >= min_heap_block_bytes && resize_in_place(old, bytes)) return old;
  return move_block(old, usable_block_bytes(old), bytes);
}

// memalign() accepts any alignment, and rounds it up to a power of two.
NEARFIELD_EXPORT void* memalign(std::size_t alignment, std::size_t bytes) {
  return allocate_aligned(alignment > heap_address_bytes ? alignment : std::bit_ceil(alignment), bytes);
}

NEARFIELD_EXPORT void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  if (std::has_single_bit(alignment)) return allocate_aligned(alignment, bytes);
  return next_allocator.malloc || find_next_allocator() ? next_allocator.aligned_alloc(alignment, bytes) : nullptr;
}

NEARFIELD_EXPORT int posix_memalign(void** result, std::size_t alignment, std::size_t bytes) {
  if (!std::has_single_bit(alignment) || alignment % sizeof(void*) != 0) return EINVAL;
  const int error = errno;
  void* block = allocate_aligned(alignment, bytes);
  errno = error;
  if (!block) return ENOMEM;
  *result = block;
  return 0;
}

NEARFIELD_EXPORT void* valloc(std::size_t bytes) { return allocate_aligned(page_bytes(), bytes); }

NEARFIELD_EXPORT void* pvalloc(std::size_t bytes) {
  const std::size_t page = page_bytes();
  if (bytes > SIZE_MAX - page) {
    errno = ENOMEM;
    return nullptr;
  }
  return allocate_aligned(page, (bytes + page - 1) / page * page);
}

NEARFIELD_EXPORT std::size_t malloc_usable_size(void* block) { return block ? usable_block_bytes(block) : 0; }

NEARFIELD_EXPORT int malloc_trim(std::size_t pad) {
  trim_heap();
  return next_allocator.malloc || find_next_allocator() ? next_allocator.malloc_trim(pad) : 0;
}

}  // namespace nearfield::heap

// Huge pages for the shared pages of the heap. The kernel provides them for private pages.
//
// Linux does not use huge pages for shared memory if shmem_enabled is "never", which is the usual default. From Linux
// 6.1 on madvise(MADV_COLLAPSE) assembles them from small pages, whatever that setting is. Memory gets huge pages if it
// would have them as private memory: all of it if transparent_hugepage/enabled is "always", memory that the program
// advises if it is "madvise", none if it is "never".
//
// A piece is collapsed when all of its pages are shared. Pieces are collapsed one at a time, between messages, with at
// most 2 % of the time, because each takes about a millisecond.
//
// Threads: one at a time does the work; others skip it.
#pragma once

#include <cstddef>

namespace nearfield::heap {

inline constexpr std::size_t huge_page_bytes = std::size_t{2} << 20;

// Called once, by the library's constructor.
void start_huge_pages(bool wanted);
// Called after every message of this process, with its size; makes a huge page if one is due.
void make_huge_pages(std::size_t bytes);
// Called when pages of [from, from + bytes) become private again: their pieces consist of small pages again.
void forget_huge_pages(const char* from, std::size_t bytes);

// Called when the program advises huge pages for its memory. The advice lasts until the memory returns to the system.
void note_advice(const void* from, std::size_t bytes);
void forget_advice(const void* from, std::size_t bytes);

// Returns the number of huge pages that this process has made.
unsigned huge_pages_made();

}  // namespace nearfield::heap

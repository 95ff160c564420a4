// Huge pages for the shared pages of the heap. Private pages get theirs from the kernel.
//
// Linux gives shared memory no huge pages by itself where shmem_enabled is "never", as it is almost everywhere. From
// Linux 6.1 on madvise(MADV_COLLAPSE) makes them of small ones, whatever that setting says. Memory gets them that would
// have them if it were private: all of it where transparent_hugepage/enabled is "always", what the program advises where
// it is "madvise", none where it is "never".
//
// A piece is made huge when all of its pages are shared; one at a time on the way through messages, with 2 % of the time
// at any time. Making one takes about a millisecond, so it never hurries.
//
// Threads: one at a time does the work, others pass.
#pragma once

#include <cstddef>

namespace nearfield::heap {

inline constexpr std::size_t huge_page_bytes = std::size_t{2} << 20;

// Called once, by the library's constructor.
void start_huge_pages(bool wanted);
// Is called after every message of this process with its bytes; makes a huge page if it is time for one.
void make_huge_pages(std::size_t bytes);
// Is called when pages of [from, from + bytes) become private again: their pieces are small pages again.
void forget_huge_pages(const char* from, std::size_t bytes);

// Called when the program advises huge pages for its memory. It counts until the memory returns to the system.
void note_advice(const void* from, std::size_t bytes);
void forget_advice(const void* from, std::size_t bytes);

// Returns the number of huge pages that this process has made.
unsigned huge_pages_made();

}  // namespace nearfield::heap

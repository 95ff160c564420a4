// Makes the shared pages of the heap huge pages. For private pages the kernel does that.
//
// Linux does not use huge pages for shared memory if shmem_enabled is "never", which is the usual default. From Linux
// 6.1 on, madvise(MADV_COLLAPSE) assembles huge pages from small ones, whatever that setting is. Shared memory gets
// huge pages where private memory would: everywhere if transparent_hugepage/enabled is "always", in memory for which
// the program advises them if the setting is "madvise", nowhere if it is "never".
//
// A piece of the heap, as long as a huge page, is collapsed when all of its pages are shared. Pieces are collapsed one
// at a time, between messages, in at most 2 % of the time, because each takes about a millisecond.
//
// Threads: one thread at a time collapses pieces; others return at once.
#pragma once

#include <cstddef>

namespace nearfield::heap {

inline constexpr std::size_t huge_page_bytes = std::size_t{2} << 20;

// Called once, before the heap opens: reads the kernel's settings. If not `is_enabled`, no huge pages are made.
void start_huge_pages(bool is_enabled);
// Called after every message that this process copies, with its size in bytes. Makes at most one huge page.
void make_huge_pages(std::size_t bytes);
// Called when pages of [from, from + bytes) become private again: the pieces that contain them then consist of small
// pages.
void forget_huge_pages(const char* from, std::size_t bytes);

// Record and revoke that the program advises huge pages for [from, from + bytes). The advice lasts until the heap
// returns the memory to the system.
void record_huge_page_advice(const void* from, std::size_t bytes);
void forget_huge_page_advice(const void* from, std::size_t bytes);

// Returns the number of huge pages that this process has made.
unsigned num_huge_pages_made();

}  // namespace nearfield::heap

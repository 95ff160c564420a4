// The heap of this process: its region, its blocks, and a small cache of blocks per thread.
//
// The malloc family (malloc.cpp) calls it from any thread. Every function may be called before open_heap() and then
// behaves as if there were no heap. Functions return nullptr if the C library's heap must serve instead.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "preload/heap/settings.hpp"
#include "preload/heap/spans.hpp"

namespace nearfield::heap {

// Called once; from then on the heap serves blocks.
void open_heap(const Settings& settings);
// The heap serves blocks of at least this size; before open_heap() it is larger than any size. A block is whole pages,
// so while the program has many short blocks, only longer ones are served.
extern std::atomic<std::size_t> shared_from;

void* allocate(std::size_t bytes, std::size_t alignment = 1);
void* allocate_zeroed(std::size_t bytes);
// The block must come from one of these functions.
void release(void* block);
bool resize_in_place(void* block, std::size_t bytes);
// Moves the first bytes of a block to another block; the old content is lost. The memory of a long block returns to the
// system piece by piece, so that two full copies never exist.
void move_content(void* to, void* from, std::size_t bytes);
std::size_t usable_bytes(const void* block);
// Returns all free memory to the system, including this thread's cached blocks.
void trim();

// Announces to peers that this process polls for copy requests (cooperative_copy.hpp).
void announce_cooperation();
// Writes the line whose latency peers measure (region.hpp).
void tick();

// For the other files of this folder; all but the locking functions require the lock.
void lock_heap();
bool try_to_lock_heap();
void unlock_heap();
void renew_heap_lock();       // in a forked child, whose only thread held it
Spans::Page heap_pages();     // usable pages
Spans::Page content_pages();  // up to the last page that was ever allocated
// Returns whether no byte of a block lies between this address and the end of its page.
bool is_end_of_block(std::uintptr_t address);
// Returns whether this is the second page of a block. Takes the lock.
bool begins_on_second_page(const void* address);
bool heap_is_open();
void count_fork();

// Facts about the heap for the report.
struct HeapFacts {
  std::size_t taken_bytes, mapped_bytes;
  int forks;
  const char* reason;  // why there is no heap; nullptr if there is one, or if none was needed
};
HeapFacts heap_facts();

}  // namespace nearfield::heap

// The heap of this process: its region, its blocks, and a small cache of blocks per thread.
//
// Called by the malloc family (malloc.cpp) from any thread. Every function may be called before
// open_heap(); it then answers as if there were no heap. It returns nullptr if the C library's heap must serve instead.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "heap/settings.hpp"
#include "heap/spans.hpp"

namespace nearfield::heap {

// Called once. Blocks come from the heap from then on.
void open_heap(const Settings& settings);
// Blocks from this size on are asked for here; no size is so long before open_heap(). A block is whole pages, so while
// the program has many short blocks, only long ones are asked for.
extern std::atomic<std::size_t> shared_from;

void* allocate(std::size_t bytes, std::size_t alignment = 1);
void* allocate_zeroed(std::size_t bytes);
// The block must be from one of these functions.
void release(void* block);
bool resize_in_place(void* block, std::size_t bytes);
// Moves the first bytes of a block to another block. Returns the memory of a long one to the system piece by piece, so
// that there are never two copies of all of it; its content is lost.
void move_content(void* to, void* from, std::size_t bytes);
std::size_t usable_bytes(const void* block);
// Returns all free memory to the system, this thread's cached blocks included.
void trim();

// Tells peers that this process looks for orders (help.hpp).
void offer_help();
// Writes the line that peers time (region.hpp).
void beat();

// These are for the other files of this folder; all but the locking functions need the lock.
void lock_heap();
bool try_to_lock_heap();
void unlock_heap();
void renew_heap_lock();       // in a child, whose only thread held it
Spans::Page heap_pages();     // that are usable
Spans::Page content_pages();  // up to the end of what was ever handed out
// Returns whether no byte of a block lies between this address and the end of its page.
bool is_end_of_block(std::uintptr_t address);
// Returns whether this is the second page of a block. Takes the lock.
bool begins_on_second_page(const void* address);
bool heap_is_open();
void count_fork();

// The heap's facts for the report.
struct HeapFacts {
  std::size_t taken_bytes, mapped_bytes;
  int forks;
  const char* reason;  // why there is no heap; nullptr if there is one, or none was needed
};
HeapFacts heap_facts();

}  // namespace nearfield::heap

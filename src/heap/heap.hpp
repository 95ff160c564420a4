// The shared heap of this process: one region at a time, its blocks, and a small cache of blocks per thread.
//
// Called by the malloc family (malloc.cpp) from any thread. Every function may be called before
// open_heap(); it then answers as if there were no heap. It returns nullptr if the C library's heap must serve instead.
#pragma once

#include <cstddef>

#include "heap/settings.hpp"

namespace nearfield::heap {

struct Header;

// Called once, by the library's constructor, before the program has threads.
void open_heap(const Settings& settings);
// Blocks from this size on are asked for here; no size is so long before open_heap().
extern std::size_t shared_from;

void* allocate(std::size_t bytes, std::size_t alignment = 1);
void* allocate_zeroed(std::size_t bytes);
// The block must be from one of these functions.
void release(void* block);
bool resize_in_place(void* block, std::size_t bytes);
std::size_t usable_bytes(const void* block);
// Returns all free memory to the system, this thread's cached blocks included.
void trim();

// Returns the header of the region that is shared now; nullptr if there is none.
Header* current_header();
// Tells peers that this process looks for orders (help.hpp), in this region and later ones.
void offer_help();
// Writes the line that peers time (region.hpp).
void beat();

// These are for fork.cpp and pages.cpp; all but the locking functions need the lock.
void lock_heap();
bool try_to_lock_heap();
void unlock_heap();
void renew_heap_lock();  // in a child, whose only thread held it
bool heap_is_open();
int heap_region();                 // its number; -1: none
std::size_t heap_content_bytes();  // from its begin to the end of what was ever used
void let_child_inherit(bool yes);
void copy_inherited_heap();  // in a child
bool retire_heap();

// The heap's facts for the report.
struct HeapFacts {
  std::size_t taken_bytes, mapped_bytes;
  int regions, forks;
  const char* reason;  // why there is no heap; nullptr if there is one, or none was needed
};
HeapFacts heap_facts();

}  // namespace nearfield::heap

// The shared heap of this process: a region of addresses, the blocks in it, and a small cache of freed blocks per
// thread.
//
// Thread-safe: the malloc family (malloc.cpp) calls these functions from any thread. Before open_heap(), every function
// behaves as if there were no heap. An allocating function returns nullptr if the caller must allocate from the C
// library's heap instead.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "preload/heap/settings.hpp"
#include "preload/heap/spans.hpp"

namespace nearfield::heap {

// Opens the heap. Called once; allocations succeed from then on.
void open_heap(const Settings& settings);
// The minimum size in bytes of blocks that the heap serves; SIZE_MAX before open_heap(). A block occupies whole pages,
// so the minimum rises while the program has many short blocks.
extern std::atomic<std::size_t> min_heap_block_bytes;

void* allocate(std::size_t bytes, std::size_t alignment = 1);
void* allocate_zeroed(std::size_t bytes);
// Frees a block that allocate() or allocate_zeroed() has returned.
void release_block(void* block);
// Grows or shrinks an allocated block without moving it. Returns whether that succeeded.
bool resize_in_place(void* block, std::size_t bytes);
// Copies the first `bytes` bytes of the block `from` to `to`, and discards the content of `from`. A long block is
// copied in pieces; each piece of `from` returns to the system once it is copied, so that two full copies never exist.
void move_block_content(void* to, void* from, std::size_t bytes);
// Returns the size in bytes that the program has requested for the block.
std::size_t requested_block_bytes(const void* block);
// Returns all free memory to the system, including this thread's cached blocks.
void trim_heap();

// Announces to peers that this process polls for copy requests (cooperative_copy.hpp).
void announce_cooperation();
// Increments HeapFileHeader::tick, so that peers can measure the latency of a cache line that this core has just
// written (distance.hpp).
void increment_tick();

// ---- for the other files of this folder
void lock_heap();
bool try_to_lock_heap();
void unlock_heap();
// Re-initializes the lock in a forked child, whose only thread holds it.
void reinitialize_heap_lock_after_fork();
// Returns the number of mapped pages, including the header's page. Requires the lock.
Spans::Page num_mapped_heap_pages();
// Returns the number of pages up to the last one that was ever allocated. Requires the lock.
Spans::Page num_ever_allocated_pages();
// Returns whether the byte before `address` lies in the last page of a block, and no byte that the program has
// requested lies at or after `address` in that page. Requires the lock.
bool is_end_of_block(std::uintptr_t address);
// Returns whether `address` lies in the second page of a block. Takes the lock.
bool is_in_second_page_of_block(const void* address);
bool is_heap_open();
// Counts a fork for the report. Requires the lock.
void count_fork();

// Figures of the heap for the report.
struct HeapFacts {
  std::size_t allocated_bytes, mapped_bytes;  // `allocated_bytes`: in allocated blocks
  int num_forks;
  const char* reason_closed;  // why there is no heap; nullptr if there is one, or if none was needed
};
HeapFacts heap_facts();

}  // namespace nearfield::heap

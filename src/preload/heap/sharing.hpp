// Moves pages of the heap between private memory and the file that peers map, and records which pages lie in the file.
//
// A page is private until a second message passes through it. Then its content is copied into the file, and the file is
// mapped at the page's address. From then on the page is shared: peers copy from and to it in user space. Before that,
// the kernel copies messages, as without the heap. A page becomes private again before any operation that behaves
// differently on shared memory: a fork, madvise(MADV_DONTNEED), another mapping at its address (remapped.cpp), its
// return to the system.
//
// Why this is safe: a write to a page between the copy of its content and the change of its mapping would be lost, so
// pages move only while nobody writes to them (users.hpp). If no other thread or device uses the memory, all pages of a
// message move. Otherwise only the pages that a message fills move, while the message is in flight, because MPI then
// forbids the program to write to a send buffer and to access a receive buffer.
//
// A peer that copies, in user space or by the kernel, first announces the copy in its slot and then checks the bits of
// all pages. So the owner can wait for copying peers if a message may still be in flight (a fork between MPI_Isend and
// MPI_Wait), and no peer begins a copy while pages move in either direction (HeapFileHeader::are_pages_moving).
// tests/support/heap_protocol.py models this protocol and checks all interleavings of the model.
//
// Threads: all functions require the heap's lock, except own_header() and is_shared(), which need none, and
// share_message() and handle_share_hint(), which take it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "preload/heap/region.hpp"

namespace nearfield::heap {

// Creates the file of this process's heap. Returns nullptr, or the reason for the failure (text with static lifetime).
const char* open_heap_file();
// Points to the address of this process's header; nullptr before the heap is open. The address lies in a page that the
// kernel clears in every child, however the child was created, because children do not inherit the header's mapping.
extern std::atomic<HeapFileHeader*>* own_header_address;
// Returns the header of this process's file; nullptr if this process has no file.
inline HeapFileHeader* own_header() {
  return own_header_address ? own_header_address->load(std::memory_order_acquire) : nullptr;
}

// Returns the descriptor of this process's file; -1 if there is none, or if the program has closed the descriptor.
int own_heap_file();
// Returns the bounce buffer in this process's file (bounce_copy.hpp); nullptr if there is none.
char* own_bounce_buffer();

// Returns whether all pages of [from, from + bytes) are shared.
bool is_shared(const void* from, std::size_t bytes);
// Returns whether any page of [from, from + bytes) is shared. Requires the lock.
bool is_partly_shared(const void* from, std::size_t bytes);

// Records that one-sided MPI calls may access [from, from + bytes) at any time. Requires the lock.
void add_rma_window(const void* from, std::size_t bytes);

// Moves those pages of a message at [from, from + bytes) into the file that are safe to move, if a message has passed
// through them before. `is_mpi_message`: the message is in flight, and an MPI library copies it; false: it may be
// complete.
void share_message(const char* from, std::size_t bytes, bool is_mpi_message);
// If a peer has posted a ShareHint, shares the memory that the hint names, unless other threads or devices may use it.
void handle_share_hint();

// Makes the shared pages of [from, from + bytes) private, with their content (retained) or with zeros (dropped).
enum class PageContent { retained, dropped };
void unshare(const void* from, std::size_t bytes, PageContent content);
// Makes the shared pages of [from, from + bytes) private with their content, and prevents that pages of this range are
// shared again, because the program has applied a special operation to them (remapped.cpp).
void keep_private(const void* from, std::size_t bytes);
// Revokes keep_private() and add_rma_window() for these pages, which the heap returns to the system.
void forget_special_pages(const void* from, std::size_t bytes);

// Called before a fork. If no other thread or device uses the heap, makes all pages private and returns false.
// Otherwise lets the child inherit the shared pages and returns true: the child must call copy_inherited_pages() before
// anything else, and the parent end_page_inheritance().
bool prepare_pages_for_fork();
// Called in the child: replaces the inherited shared pages by private copies.
void copy_inherited_pages();
// Called in the parent when the child has its copies: later children inherit no shared pages.
void end_page_inheritance();
// Makes all shared pages private, with their content.
void unshare_all();
// Called in a forked child: closes and forgets the parent's file.
void reset_sharing();

struct SharingFacts {
  std::size_t shared_bytes;
  unsigned num_moved_stretches;  // how many stretches of pages have moved into the file
};
SharingFacts sharing_facts();

}  // namespace nearfield::heap

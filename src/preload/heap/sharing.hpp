// Determines which pages of the heap lie in the file that peers map, and moves pages to and fro.
//
// A page is private until messages have passed through it twice. Then its content is copied into the file, and the file
// is mapped in its place. From then on peers copy from and to it in user space; until then the kernel copies, as
// without the heap. A page becomes private again before any operation that behaves differently on shared memory: a
// fork, madvise(MADV_DONTNEED), a mapping of something else in its place (remapped.cpp), its return to the system.
//
// Why this is safe: a write to a page between the copy and the change of the mapping would be lost, so pages move only
// while nobody writes to them (users.hpp): all pages of a message if nobody else uses the memory; otherwise only pages
// that a message fills, while it is in flight, since MPI forbids the program to write to a send buffer, and to access a
// receive buffer, in that time.
//
// Peers announce in their slot that they copy, by themselves or by the kernel, and check the bits of all pages before
// they do. So the owner can wait for them if a message may still be in flight (a fork between MPI_Isend and MPI_Wait),
// and none begins while pages move in either direction (Header::moving). tests/support/heap_protocol.py models this
// protocol, and all interleavings of the model are explored.
//
// Threads: all functions require the heap's lock, except own_header() and is_shared(), which need none, and
// share_message() and handle_share_hint(), which take it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "preload/heap/region.hpp"

namespace nearfield::heap {

// Opens the file. Returns nullptr, or the reason why that is impossible (text with static lifetime).
const char* open_sharing();
// Location of the address of this process's header, in a page that every child finds empty, however it was created,
// since the header is not mapped there. nullptr before the heap is open.
extern std::atomic<Header*>* own_header_address;
// Returns the header of this process's file; nullptr if there is none.
inline Header* own_header() {
  return own_header_address ? own_header_address->load(std::memory_order_acquire) : nullptr;
}

// Returns the descriptor of this process's file; -1 if there is none.
int own_heap_file();
// Returns the bounce buffer in it; nullptr if there is none.
char* own_bounce();

// Returns whether all pages of [from, from + bytes) are shared.
bool is_shared(const void* from, std::size_t bytes);
// Returns whether any of these pages is shared. Requires the lock.
bool is_partly_shared(const void* from, std::size_t bytes);

// Records that one-sided calls may access this memory at any time. Requires the lock.
void add_window(const void* from, std::size_t bytes);

// Called when a message from or to this memory is in flight (`is_message`: an MPI library copies it), or was
// (handle_share_hint). Shares those of its pages that are safe to share, if a message has passed through them before.
void share_message(const char* from, std::size_t bytes, bool is_message);
// Shares the memory that a peer's hint names, if nobody else is using it.
void handle_share_hint();

// Makes the shared pages of [from, from + bytes) private, with their content or with zeros.
enum class Content { retained, dropped };
void unshare(const void* from, std::size_t bytes, Content content);
// Same, for pages to which the program has applied special operations; they are never shared again.
void keep_private(const void* from, std::size_t bytes);
// Revokes keep_private() for these pages, which are being reused.
void forget_special_pages(const void* from, std::size_t bytes);

// Called before a fork. Makes all pages private if that is safe; otherwise the child inherits the shared ones, and must
// call copy_inherited_pages() before anything else. Returns whether it must.
bool child_must_copy();
void copy_inherited_pages();
void end_inheritance();
void unshare_all();
// Called in a forked child, which has no file.
void reset_sharing();

struct SharingFacts {
  std::size_t shared_bytes;
  unsigned moves;  // of stretches of pages into the file
};
SharingFacts sharing_facts();

}  // namespace nearfield::heap

// Which pages of the heap lie in the file that peers map, and how pages get there and back.
//
// A page is private until messages have passed through it twice. Then its content is copied into the file, and the file
// is mapped in its place. From then on peers copy from it and to it in user space; until then the kernel copies, as it
// does without the heap. A page becomes private again before anything is done to it that differs for shared memory: a
// fork, madvise(MADV_DONTNEED), a mapping of something else in its place (remapped.cpp), its return to the system.
//
// Why this is safe. What is written to a page between the copy and the change of the mapping would be lost, so pages
// move only while nobody writes to them (users.hpp): whole pages of a message while nobody else is there; otherwise only
// pages that a message fills, while it is under way, since MPI forbids the program to write to a buffer that is being
// sent, and to use one that is being received.
//
// Peers announce in their slot that they copy, themselves or by the kernel, and look at the bits of all pages before they
// do. So the owner can wait for them where a message may still be under way (a fork between MPI_Isend and MPI_Wait); and
// none begins while pages move, in either direction (Header::moving). tests/support/heap_protocol.py is a model of this,
// of which all interleavings are explored.
//
// Threads: all functions need the heap's lock, but own_header() and is_shared(), which need none, and share_message() and
// answer_wish(), which take it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "heap/region.hpp"

namespace nearfield::heap {

// Opens the file. Returns nullptr, or why there can be none (text with static lifetime).
const char* open_sharing();
// Where the address of this process's header stands: in a page that every child finds empty, however it was made, since
// the header is not mapped there. nullptr before the heap is open.
extern std::atomic<Header*>* own_header_address;
// Returns the header of this process's file; nullptr if there is none.
inline Header* own_header() {
  return own_header_address ? own_header_address->load(std::memory_order_acquire) : nullptr;
}

// Returns whether all pages of [from, from + bytes) are shared.
bool is_shared(const void* from, std::size_t bytes);
// Returns whether any page of it is. Needs the lock.
bool is_partly_shared(const void* from, std::size_t bytes);

// Notes that one-sided calls may access this memory at any time. Needs the lock.
void note_window(const void* from, std::size_t bytes);

// Called where a message from or to this memory is under way (`is_message`: an MPI library copies it), or was
// (answer_wish). Shares what is safe to share of its pages, if a message has passed through them before.
void share_message(const char* from, std::size_t bytes, bool is_message);
// Shares the memory that a peer wished to be shared, if nobody else uses it now.
void answer_wish();

// Makes the shared pages of [from, from + bytes) private, with their content or with zeros.
enum class Content { kept, dropped };
void unshare(const void* from, std::size_t bytes, Content content);
// The same for pages that the program has done something special with, which are never shared again.
void keep_private(const void* from, std::size_t bytes);
// Forgets what keep_private() was told of these pages, since they begin a new life.
void forget_special_pages(const void* from, std::size_t bytes);

// Before a fork. Makes all pages private if that is safe; otherwise lets the child inherit the shared ones, which it
// must make its own by take_over_inherited_pages() before anything else. Returns whether it is so.
bool child_must_copy();
void take_over_inherited_pages();
void end_inheritance();
void unshare_all();
// In a child: there is no file any more.
void forget_sharing();

struct SharingFacts {
  std::size_t shared_bytes;
  unsigned moves;  // of pages into the file, each of one stretch
};
SharingFacts sharing_facts();

}  // namespace nearfield::heap

// One stretch of a program's heap in memory that the other ranks of its node can map.
//
// A region is a memfd without a name, mapped shared at an address that is the same in every process: region g begins at
// address_of(g). Its first page is a header that tells a peer which file to map; the heap's blocks follow. An address
// minus the region's begin is the offset in the file, so a peer that knows an address knows the offset.
//
// Life cycle: open(), then grow() as blocks need it. A fork must give the child memory of its own with the same
// content. Usually the child copies the region while the parent waits (fork.hpp); the parent goes on sharing it. A
// region that is too long for that is retired before the fork: it becomes private to parent and child, by the kernel's
// copy on write, and is never shared again; a new region takes its place. Nothing is left of a region when the last
// process that maps it ends, however it ends.
//
// Threads: open, grow and retire only under the heap's lock. Peers read the header at any time.
#pragma once

#include <pthread.h>
#include <time.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace nearfield::heap {

inline constexpr std::uintptr_t first_region = std::uintptr_t{0x20} << 40;
inline constexpr std::size_t region_span = std::size_t{1} << 40;  // of addresses, and of the file
inline constexpr int most_regions = 48;

inline constexpr std::uintptr_t address_of(int region) {
  return first_region + static_cast<std::size_t>(region) * region_span;
}

// Returns whether an address lies in the stretch of addresses that all regions share.
inline bool in_regions(std::uintptr_t address) { return address - first_region < most_regions * region_span; }
inline bool in_regions(const void* address) { return in_regions(reinterpret_cast<std::uintptr_t>(address)); }
inline int region_of(std::uintptr_t address) { return static_cast<int>((address - first_region) / region_span); }

inline std::int64_t now_ns(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return now.tv_sec * std::int64_t{1'000'000'000} + now.tv_nsec;
}

// A receiver's wish that the sender of a message copies some of it (help.hpp): written by one receiver at a time and by
// the region's owner. none -> being_written -> posted, by the receiver; posted -> taken -> finished, by the sender;
// posted or finished -> none, by the receiver, whose order it is until then.
struct Order {
  enum State : std::uint32_t { none, being_written, posted, taken, finished };
  alignas(64) std::atomic<std::uint32_t> state;
  std::uint32_t streaming;
  std::int32_t reader;  // the receiver's process
  std::uint32_t chunks;
  std::uint64_t from, to;  // addresses: in the owner, in the receiver
  std::uint64_t bytes;
  alignas(64) std::atomic<std::uint32_t> claimed;  // chunks, by both ends
};

// The first page of a region, which peers read. `alive` is a robust mutex that the owner holds as long as it
// lives: the kernel marks it when the owner dies, even by SIGKILL, so that a peer notices that a process number has got
// another owner. `writers` counts the peers that are writing into the region at this moment. `beat` is a line that the
// owner writes again and again, so that a peer can time how long a line takes from there to here.
struct Header {
  static constexpr char expected[16] = "nearfield heap1";
  char magic[16];
  std::int32_t file;
  std::int32_t region;
  std::uint64_t device, inode;
  alignas(64) pthread_mutex_t alive;
  std::atomic<std::uint32_t> retired;
  std::atomic<std::uint64_t> mapped;  // bytes; behind them there is nothing to read yet
  alignas(64) std::atomic<std::uint32_t> writers;
  alignas(64) std::atomic<std::uint64_t> beat;
  std::atomic<std::uint32_t> helps;  // whether the owner looks for orders
  Order order;

  bool valid(int number) const;
  bool owner_died() const;
};

class Region {
 public:
  // Makes region `number`. Returns nullptr, or why it cannot be made (text with static lifetime).
  const char* open(int number);
  // Makes at least `bytes` more usable. Returns how many; 0 if there is no room or the kernel refuses.
  std::size_t grow(std::size_t bytes);
  // Makes the region private to this process and the child of the fork that follows. Returns false if the program has
  // closed the file, as those do that close all descriptors which they do not know.
  bool retire();
  // Sets whether a child of fork gets the region as it is; it must then replace it by copy() before anything else.
  void inherit(bool yes) const;
  // Replaces the region in a child by private memory with the same content, which ends at `end`. Without enough memory
  // for that the child has none there.
  void copy(const char* end) const;

  bool is_open() const { return usable_ != 0; }
  Header* header() const { return reinterpret_cast<Header*>(address_of(number_)); }
  char* begin() const { return reinterpret_cast<char*>(address_of(number_)) + page_bytes(); }
  std::size_t usable_bytes() const { return usable_ ? usable_ - page_bytes() : 0; }
  static std::size_t page_bytes();

 private:
  bool file_is_ours() const;
  void wait_for_writers() const;

  int number_ = -1;
  int file_ = -1;
  std::size_t usable_ = 0;  // the header's page included
};

}  // namespace nearfield::heap

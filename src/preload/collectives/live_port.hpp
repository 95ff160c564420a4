// How a rank waits for its peers and reads their memory in a running program.
#pragma once

#include <mpi.h>
#include <sys/types.h>

#include <cstring>
#include <span>
#include <vector>

#include "base/shared_heap.h"
#include "collectives/exchange.hpp"

namespace nearfield::collectives {

class LivePort {
 public:
  using Box = collectives::Box;

  // `processes` are the IDs of the processes of the exchange's ranks. The communicator must outlive the port; it is used
  // to drive the MPI library's progress and, if a peer dies, to end the program.
  LivePort(MPI_Comm comm, std::vector<pid_t> processes);

  // Gives the boxes of all ranks, as mapped by this process, which must outlive the port, and the own rank.
  void use_boxes(std::span<Box* const> boxes, int rank) { boxes_ = boxes, rank_ = rank; }

  void publish(Counter& counter, std::uint64_t number) {
    counter.store(number, std::memory_order_release);
    if (--publishes_until_look_ == 0) look_for_sleepers();
    if (has_sleepers_) wake_sleepers(counter);
  }

  void wait(const Counter& counter, std::uint64_t number, int rank, Wait) {
    for (int i = 0; i < spins_; ++i) {
      if (counter.load(std::memory_order_acquire) >= number) return;
      if (i % 8 == 7 && heap_.poll) heap_.poll();
      pause();
    }
    wait_long(counter, number, rank);
  }

  void write_shared(void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }
  void read_shared(int, void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }
  void copy_own(void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }
  void note_read(int, const void*, std::size_t) {}

  // Copies from or to a peer's memory: in user space where the shared heap is loaded and has the data, else by the
  // kernel. They end the program if that fails, since the others count on it.
  void read_memory(int rank, void* to, std::uintptr_t from, std::size_t bytes, bool owner_waits);
  void write_memory(int rank, std::uintptr_t to, const void* from, std::size_t bytes);

  // Returns whether this process may read a rank's memory; `from` is the address of `bytes` bytes there.
  bool try_to_read(int rank, void* to, std::uintptr_t from, std::size_t bytes, bool owner_waits = false) const;

 private:
  static void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("isb");
#endif
  }

  // Lets the MPI library progress meanwhile. Sleeps between two looks at the counter if other threads need this core, and
  // is then woken by the rank that publishes. If the wait takes very long, this rank sleeps, too, but is not woken.
  void wait_long(const Counter& counter, std::uint64_t number, int rank);
  void progress() const;
  void look_for_sleepers();
  static void wake_sleepers(const Counter& counter);
  void end_if_dead(int rank) const;
  [[noreturn]] void end_program(int rank, const char* why) const;

  static constexpr int max_spins = 2000, min_spins = 20;
  static constexpr int look_period = 64;  // publishes from one look for sleeping peers to the next
  int spins_ = max_spins;  // fewer while waits are long: then processes share cores, and spinning keeps others waiting
  int publishes_until_look_ = look_period;
  bool has_sleepers_ = false;  // a peer may sleep in a wait for this rank
  std::span<Box* const> boxes_;
  int rank_ = 0;
  MPI_Comm comm_;
  std::vector<pid_t> processes_;
  struct {
    decltype(&nearfield_heap_read) read;
    decltype(&nearfield_heap_poll) poll;
  } heap_;  // null where it is not loaded
};

}  // namespace nearfield::collectives

// The Port of an Exchange in a running MPI program: how a rank waits for its peers and accesses their memory.
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

  // `processes[i]` is the process ID of rank i of the exchange. The communicator must outlive the port; it is used to
  // drive the MPI library's progress and, if a peer dies, to abort the job.
  LivePort(MPI_Comm comm, std::vector<pid_t> processes);

  // Sets the boxes of all ranks, at the addresses where this process has mapped them, and this process's rank in the
  // exchange. The boxes must outlive the port.
  void set_boxes(std::span<Box* const> boxes, int rank) { boxes_ = boxes, rank_ = rank; }

  void publish(Counter& counter, std::uint64_t number) {
    counter.store(number, std::memory_order_release);
    if (--publishes_until_sleeper_check_ == 0) check_for_sleepers();
    if (has_sleepers_) wake_sleepers(counter);
  }

  void wait(const Counter& counter, std::uint64_t number, int rank, WaitReason) {
    for (int i = 0; i < spins_before_sleep_; ++i) {
      if (counter.load(std::memory_order_acquire) >= number) return;
      if (i % 8 == 7 && heap_functions_.poll) heap_functions_.poll();
      pause();
    }
    wait_after_spinning(counter, number, rank);
  }

  void write_shared(void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }
  void read_shared(int, void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }
  void copy_own(void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }
  void note_read(int, const void*, std::size_t) {}

  // Copy from or to a peer's private memory: in user space if the shared heap is preloaded and contains the data,
  // otherwise by process_vm_readv or process_vm_writev. If the copy fails, they abort the job, since the peers rely on
  // the data.
  void read_memory(int rank, void* destination, std::uintptr_t remote_address, std::size_t bytes,
                   bool is_owner_waiting);
  void write_memory(int rank, std::uintptr_t to, const void* from, std::size_t bytes);

  // Copies `bytes` bytes from `remote_address` in the memory of `rank`. Returns whether that succeeded.
  bool try_read_memory(int rank, void* destination, std::uintptr_t remote_address, std::size_t bytes,
                       bool is_owner_waiting = false) const;

 private:
  static void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("isb");
#endif
  }

  // Called when the counter has not reached `number` while this thread was spinning: waits for it, and drives the MPI
  // library's progress. If other threads need this core, sleeps between two loads of the counter, and is woken by the
  // rank that publishes. If the wait takes longer than max_spin_ns, sleeps as well, but is not woken.
  void wait_after_spinning(const Counter& counter, std::uint64_t number, int rank);
  void drive_mpi_progress() const;
  void check_for_sleepers();
  static void wake_sleepers(const Counter& counter);
  void abort_if_peer_died(int rank) const;
  [[noreturn]] void abort_job(int rank, const char* reason) const;

  static constexpr int max_spins = 2000, min_spins = 20;
  static constexpr int sleeper_check_period = 64;  // number of publishes between two looks for sleeping peers
  // halved after long waits: spinning takes cores from other processes
  int spins_before_sleep_ = max_spins;
  int publishes_until_sleeper_check_ = sleeper_check_period;
  bool has_sleepers_ = false;  // some peer may be asleep in a wait for this rank
  std::span<Box* const> boxes_;
  int rank_ = 0;
  MPI_Comm comm_;
  std::vector<pid_t> process_ids_;
  struct {
    decltype(&nearfield_heap_read) read;
    decltype(&nearfield_heap_poll) poll;
  } heap_functions_;  // null if the shared heap is not preloaded
};

}  // namespace nearfield::collectives

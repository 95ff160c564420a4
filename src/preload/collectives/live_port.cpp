#include "preload/collectives/live_port.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>

#include "preload/collectives/core_sharing.hpp"
#include "preload/collectives/counts.hpp"
#include "preload/mpi/handles.hpp"

namespace nearfield::collectives {
namespace {

constexpr Nanoseconds ns_per_ms = 1'000'000;
constexpr Nanoseconds max_spin_ns = 5 * ns_per_ms;  // then a rank sleeps even if no other thread needs its core
// The shortest and the longest time-out of one sleep. A rank continues after this time if its peer has not woken it,
// because the peer has not yet checked for sleepers.
constexpr Nanoseconds min_sleep_ns = ns_per_ms / 10, max_sleep_ns = ns_per_ms / 2;
constexpr Nanoseconds peer_check_period_ns = 500 * ns_per_ms;  // between two checks whether the awaited peer has died

Nanoseconds now_ns() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * Nanoseconds{1'000'000'000} + time.tv_nsec;
}

// Returns the low 32 bits of a counter, which a futex compares. They lie in shared memory that is mapped read-only.
const std::uint32_t* futex_word(const Counter& counter) {
  static_assert(std::endian::native == std::endian::little);
  return reinterpret_cast<const std::uint32_t*>(&counter);
}

// Sleeps by FUTEX_WAIT for at most `duration`, or until the owner of the counter wakes its sleepers; does not sleep if
// the counter no longer equals `last_value`. Returns whether the owner has woken this thread.
bool sleep_on_counter(const Counter& counter, std::uint64_t last_value, Nanoseconds duration) {
  const timespec time{0, duration};
  return syscall(SYS_futex, futex_word(counter), FUTEX_WAIT, static_cast<std::uint32_t>(last_value), &time, nullptr,
                 0) == 0;
}

// Returns whether the process has ended. A zombie counts as ended.
bool has_process_ended(pid_t process) {
  char path[64], text[512] = {};
  std::snprintf(path, sizeof path, "/proc/%d/stat", static_cast<int>(process));
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return errno == ENOENT;
  const ssize_t count = read(file, text, sizeof text - 1);
  close(file);
  if (count <= 0) return true;
  const char* const end_of_name = std::strrchr(text, ')');
  return end_of_name && (end_of_name[2] == 'Z' || end_of_name[2] == 'X');
}

// Calls `copy(own address, peer's address, bytes)`, which returns the number of bytes that it has copied, until all
// bytes are copied. Returns false if a call fails.
template <class CopyPart>
bool copy_all_bytes(void* local_address, std::uintptr_t peer_address, std::size_t bytes, CopyPart copy) {
  auto* local = static_cast<Bytes*>(local_address);
  while (bytes > 0) {
    const ssize_t done = copy(local, peer_address, bytes);
    if (done <= 0) return false;
    const auto length = static_cast<std::size_t>(done);
    local += length, peer_address += length, bytes -= length;
  }
  return true;
}

template <class Function>
Function* find_heap_function(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

}  // namespace

LivePort::LivePort(MPI_Comm comm, std::vector<pid_t> processes)
    : comm_(comm),
      process_ids_(std::move(processes)),
      heap_functions_{find_heap_function<decltype(nearfield_heap_read)>("nearfield_heap_read"),
                      find_heap_function<decltype(nearfield_heap_poll)>("nearfield_heap_poll")} {}

void LivePort::wait_after_spinning(const Counter& counter, std::uint64_t number, int rank) {
  const Nanoseconds begin = now_ns();
  Nanoseconds next_check = begin + peer_check_period_ns, sleep = min_sleep_ns;
  const bool is_shared = is_core_shared(begin);
  bool sleeps = is_shared;
  if (auto& sleeps_flag = boxes_[static_cast<std::size_t>(rank_)]->sleeps;
      (sleeps_flag.load(std::memory_order_relaxed) != 0) != sleeps)
    sleeps_flag.store(sleeps, std::memory_order_relaxed);  // a store would invalidate the line in the peers' caches
  for (int i = 0;; ++i) {
    if (heap_functions_.poll) heap_functions_.poll();
    drive_mpi_progress();
    const std::uint64_t last_value = counter.load(std::memory_order_acquire);
    if (last_value >= number) break;
    if (!sleeps) {
      sleeps = i % 64 == 63 && now_ns() - begin > max_spin_ns;
      continue;
    }
    const bool is_woken = sleep_on_counter(counter, last_value, sleep);
    if (is_shared) {
      num_sleeps_on_shared_core.fetch_add(1, std::memory_order_relaxed);
      num_wakes_on_shared_core.fetch_add(is_woken, std::memory_order_relaxed);
    }
    sleep = std::min(2 * sleep, max_sleep_ns);
    if (now_ns() < next_check) continue;
    abort_if_peer_died(rank);
    next_check = now_ns() + peer_check_period_ns;
  }
  spins_before_sleep_ = now_ns() - begin > ns_per_ms / 20 ? std::max(spins_before_sleep_ / 2, min_spins)
                                                          : std::min(spins_before_sleep_ * 2, max_spins);
}

void LivePort::check_for_sleepers() {
  publishes_until_sleeper_check_ = sleeper_check_period;
  has_sleepers_ = std::ranges::any_of(boxes_, [this](const Box* box) {
    return box != boxes_[static_cast<std::size_t>(rank_)] && box->sleeps.load(std::memory_order_relaxed) != 0;
  });
}

// Wakes all threads that sleep on the counter, by FUTEX_WAKE. A peer that is about to sleep may miss the call, and then
// continues when its sleep times out.
void LivePort::wake_sleepers(const Counter& counter) {
  syscall(SYS_futex, futex_word(counter), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

// Drives the MPI library's progress by an MPI_Iprobe on the program's communicator, which receives nothing. A probe on
// MPI_COMM_SELF does not suffice: in MPICH 4.0 it drives no progress.
void LivePort::drive_mpi_progress() const {
  int flag = 0;
  PMPI(MPI_Iprobe)(MPI_ANY_SOURCE, MPI_ANY_TAG, comm_, &flag, MPI_STATUS_IGNORE);
}

bool LivePort::try_read_memory(int rank, void* destination, std::uintptr_t remote_address, std::size_t bytes,
                               bool is_owner_waiting) const {
  const pid_t process = process_ids_[static_cast<std::size_t>(rank)];
  return copy_all_bytes(
      destination, remote_address, bytes, [&](void* local_address, std::uintptr_t peer_address, std::size_t length) {
        if (heap_functions_.read)
          return heap_functions_.read(process, local_address, peer_address, length, is_owner_waiting);
        const iovec local{local_address, length}, remote{reinterpret_cast<void*>(peer_address), length};
        return process_vm_readv(process, &local, 1, &remote, 1, 0);
      });
}

void LivePort::read_memory(int rank, void* destination, std::uintptr_t remote_address, std::size_t bytes,
                           bool is_owner_waiting) {
  if (!try_read_memory(rank, destination, remote_address, bytes, is_owner_waiting))
    abort_job(rank, std::strerror(errno));
}

void LivePort::write_memory(int rank, std::uintptr_t to, const void* from, std::size_t bytes) {
  const pid_t process = process_ids_[static_cast<std::size_t>(rank)];
  const bool is_written = copy_all_bytes(
      const_cast<void*>(from), to, bytes, [&](void* local_address, std::uintptr_t peer_address, std::size_t length) {
        const iovec local{local_address, length}, remote{reinterpret_cast<void*>(peer_address), length};
        return process_vm_writev(process, &local, 1, &remote, 1, 0);
      });
  if (!is_written) abort_job(rank, std::strerror(errno));
}

void LivePort::abort_if_peer_died(int rank) const {
  if (has_process_ended(process_ids_[static_cast<std::size_t>(rank)])) abort_job(rank, "its process has ended");
}

void LivePort::abort_job(int rank, const char* reason) const {
  std::fprintf(stderr, "nearfield: a collective cannot read the data of process %d: %s\n",
               static_cast<int>(process_ids_[static_cast<std::size_t>(rank)]), reason);
  PMPI(MPI_Abort)(comm_, 1);
  std::abort();
}

}  // namespace nearfield::collectives

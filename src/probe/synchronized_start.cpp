#include "probe/synchronized_start.hpp"

#include <sched.h>
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <limits>

namespace nearfield::probe {

// A rank's flag line in the shared window. Epochs only increase; a waiting rank also accepts a later epoch, because its
// peer may be a step ahead. Lines are 128 bytes, so that adjacent-line prefetchers do not couple the flags of two
// ranks.
struct alignas(128) SynchronizedStart::FlagLine {
  std::atomic<std::uint64_t> epoch;
  std::atomic<Ticks> time;
};

SynchronizedStart::SynchronizedStart(MPI_Comm comm, bool yield, double ticks_per_ns) : comm_(comm), yield_(yield) {
  MPI_Comm_rank(comm, &rank_);
  MPI_Comm_size(comm, &size_);
  MPI_Comm node;
  MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  int node_size = 0;
  MPI_Comm_size(node, &node_size);
  MPI_Comm_free(&node);
  int all_here = node_size == size_;
  MPI_Allreduce(MPI_IN_PLACE, &all_here, 1, MPI_INT, MPI_MIN, comm);
  if (!all_here) return;

  void* base = nullptr;
  const MPI_Aint bytes = rank_ == 0 ? static_cast<MPI_Aint>(sizeof(FlagLine)) * (size_ + 2) : 0;
  MPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL, comm, &base, &window_);
  MPI_Aint size = 0;
  int unit = 0;
  MPI_Win_shared_query(window_, 0, &size, &unit, &base);
  const auto address = reinterpret_cast<std::uintptr_t>(base);
  lines_ = reinterpret_cast<FlagLine*>((address + sizeof(FlagLine) - 1) / sizeof(FlagLine) * sizeof(FlagLine));
  if (rank_ == 0)
    for (int i = 0; i <= size_; ++i) {
      lines_[i].epoch.store(0);
      lines_[i].time.store(0);
    }
  MPI_Barrier(comm);
  measure_offsets();
  clock_overhead_ticks_ = static_cast<double>(min_clock_overhead());
  margin_ = static_cast<Ticks>(4 * core_latency_ticks_ + 200 * ticks_per_ns);
  crowded_ticks_ = static_cast<Ticks>(0.5e9 * ticks_per_ns);
  was_preempted_recently();
  crowded_until_ = 0;
}

SynchronizedStart::~SynchronizedStart() {
  if (window_ != MPI_WIN_NULL) MPI_Win_free(&window_);
}

// Pauses once in a spin loop. Calls MPI_Iprobe occasionally, because a peer may need progress by this rank to complete
// its own MPI call (a pending send).
void SynchronizedStart::pause_spinning(unsigned& spins) const {
  if (++spins % (yield_ ? 16 : 8192) == 0) {
    int flag = 0;
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm_, &flag, MPI_STATUS_IGNORE);
  }
  if (yield_)
    sched_yield();
  else
    cpu_pause();
}

// Returns whether another program has preempted this rank within the last 0.5 s, by the count of involuntary context
// switches.
bool SynchronizedStart::was_preempted_recently() {
  struct rusage used{};
  getrusage(RUSAGE_THREAD, &used);
  if (used.ru_nivcsw > preempted_) {
    preempted_ = used.ru_nivcsw;
    crowded_until_ = now() + crowded_ticks_;
  }
  return now() < crowded_until_;
}

// Same as pause_spinning(), but sleeps now and then while another program competes for this core. A rank that spins
// while its peer has no core uses up its own share of CPU time, and is preempted when the peer runs again: two such
// ranks hardly ever run at the same time. A sleeping rank keeps its share.
void SynchronizedStart::pause_or_sleep(unsigned& spins) {
  pause_spinning(spins);
  if (spins % 8192 != 0 || !was_preempted_recently()) return;
  const struct timespec pause{0, 50'000};
  nanosleep(&pause, nullptr);
}

// The round trip of a flag between rank 0 and a peer: its duration on rank 0, and the peer's clock minus rank 0's clock
// in the middle of the round trip.
struct SynchronizedStart::FlagRoundTrip {
  double ticks = std::numeric_limits<double>::max();
  std::int64_t offset = 0;
};

// Returns the shortest of `tries` round trips, on rank 0: it bounds the clock offset most tightly. Only rank 0 and the
// peer take part.
SynchronizedStart::FlagRoundTrip SynchronizedStart::measure_fastest_round_trip(int peer, int tries) {
  FlagRoundTrip fastest;
  unsigned spins = 0;
  for (int i = 1; i <= tries; ++i) {
    const std::uint64_t epoch = ++epoch_;
    if (rank_ == 0) {
      const Ticks sent = now();
      lines_[0].epoch.store(epoch, std::memory_order_release);
      while (lines_[1 + peer].epoch.load(std::memory_order_acquire) < epoch) pause_spinning(spins);
      const Ticks back = now();
      const auto trip = static_cast<double>(back - sent);
      if (trip < fastest.ticks)
        fastest = {trip, static_cast<std::int64_t>(lines_[1 + peer].time.load() - (sent + (back - sent) / 2))};
    } else if (rank_ == peer) {
      while (lines_[0].epoch.load(std::memory_order_acquire) < epoch) pause_spinning(spins);
      lines_[1 + peer].time.store(now(), std::memory_order_relaxed);
      lines_[1 + peer].epoch.store(epoch, std::memory_order_release);
    }
  }
  return fastest;
}

// Measures the clock offset of each rank by flag round trips with rank 0, one rank after the other.
void SynchronizedStart::measure_offsets() {
  constexpr int exchanges = 2000;
  double worst_flag = 0;
  for (int peer = 1; peer < size_; ++peer) {
    FlagRoundTrip fastest = measure_fastest_round_trip(peer, yield_ ? 20 : exchanges);
    worst_flag = std::max(worst_flag, fastest.ticks / 2);
    MPI_Bcast(&fastest.offset, 1, MPI_INT64_T, 0, comm_);
    if (rank_ == peer) offset_ = fastest.offset;
    // Ranks that took no part in the round trips wait here.
    MPI_Barrier(comm_);
  }
  core_latency_ticks_ = worst_flag;
  MPI_Bcast(&core_latency_ticks_, 1, MPI_DOUBLE, 0, comm_);
}

// The clock is read once per batch of round trips, and the first looks at a flag are made without a pause: clock reads
// and pauses would add to the latency.
double SynchronizedStart::measure_core_latency_ticks() {
  constexpr int batches = 4, round_trips = 8;
  constexpr unsigned max_eager_looks = 4096;
  if (!lines_ || size_ < 2) return 0.0;
  if (rank_ > 1) {
    epoch_ += batches * round_trips;  // same epoch as on ranks 0 and 1
    return 0.0;
  }
  const auto wait = [this](const FlagLine& line, std::uint64_t epoch) {
    unsigned looks = 0, spins = 0;
    while (line.epoch.load(std::memory_order_acquire) < epoch)
      if (++looks > max_eager_looks) pause_or_sleep(spins);
  };
  double fastest = std::numeric_limits<double>::max();
  for (int batch = 0; batch < batches; ++batch) {
    const Ticks sent = now();
    for (int trip = 0; trip < round_trips; ++trip) {
      const std::uint64_t epoch = ++epoch_;
      if (rank_ == 0) lines_[0].epoch.store(epoch, std::memory_order_release);
      wait(lines_[rank_ == 0 ? 2 : 0], epoch);
      if (rank_ == 1) lines_[2].epoch.store(epoch, std::memory_order_release);
    }
    fastest = std::min(fastest, (static_cast<double>(now() - sent) - clock_overhead_ticks_) / (2 * round_trips));
  }
  return rank_ == 0 ? std::max(fastest, 1.0) : 0.0;
}

// A barrier through the flag lines. Rank 0 calls `release` when all ranks have arrived, just before it lets the others
// proceed.
template <class Relax, class Release>
void SynchronizedStart::wait_for_all_ranks(Relax relax_once, Release release) {
  const std::uint64_t epoch = ++epoch_;
  unsigned spins = 0;
  lines_[1 + rank_].epoch.store(epoch, std::memory_order_release);
  if (rank_ == 0) {
    for (int peer = 1; peer < size_; ++peer)
      while (lines_[1 + peer].epoch.load(std::memory_order_acquire) < epoch) relax_once(spins);
    release();
    lines_[0].epoch.store(epoch, std::memory_order_release);
  } else {
    while (lines_[0].epoch.load(std::memory_order_acquire) < epoch) relax_once(spins);
  }
}

Ticks SynchronizedStart::wait() {
  if (!lines_) {
    MPI_Barrier(comm_);
    return now();
  }
  // Ranks that arrive early at the first barrier may sleep; the second, quick barrier ensures that no rank sleeps at
  // the start.
  wait_for_all_ranks([this](unsigned& spins) { pause_or_sleep(spins); }, [] {});
  wait_for_all_ranks([this](unsigned& spins) { pause_spinning(spins); },
                     [this] { lines_[0].time.store(now() + margin_, std::memory_order_relaxed); });
  const Ticks start = lines_[0].time.load(std::memory_order_relaxed) + static_cast<Ticks>(offset_);
  Ticks left = now();
  while (left < start) left = now();
  return left;
}

}  // namespace nearfield::probe

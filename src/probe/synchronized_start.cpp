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

SynchronizedStart::SynchronizedStart(MPI_Comm comm, bool should_yield, double ticks_per_ns)
    : comm_(comm), should_yield_(should_yield) {
  MPI_Comm_rank(comm, &rank_);
  MPI_Comm_size(comm, &size_);
  MPI_Comm node;
  MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  int node_size = 0;
  MPI_Comm_size(node, &node_size);
  MPI_Comm_free(&node);
  int are_all_on_one_node = node_size == size_;
  MPI_Allreduce(MPI_IN_PLACE, &are_all_on_one_node, 1, MPI_INT, MPI_MIN, comm);
  if (!are_all_on_one_node) return;

  void* base = nullptr;
  const MPI_Aint bytes = rank_ == 0 ? static_cast<MPI_Aint>(sizeof(FlagLine)) * (size_ + 2) : 0;
  MPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL, comm, &base, &window_);
  MPI_Aint size = 0;
  int unit = 0;
  MPI_Win_shared_query(window_, 0, &size, &unit, &base);
  const auto address = reinterpret_cast<std::uintptr_t>(base);
  flag_lines_ = reinterpret_cast<FlagLine*>((address + sizeof(FlagLine) - 1) / sizeof(FlagLine) * sizeof(FlagLine));
  if (rank_ == 0)
    for (int i = 0; i <= size_; ++i) {
      flag_lines_[i].epoch.store(0);
      flag_lines_[i].time.store(0);
    }
  MPI_Barrier(comm);
  measure_offsets();
  clock_overhead_ticks_ = static_cast<double>(min_clock_overhead());
  start_margin_ticks_ = static_cast<Ticks>(4 * core_latency_ticks_ + 200 * ticks_per_ns);
  preemption_memory_ticks_ = static_cast<Ticks>(0.5e9 * ticks_per_ns);
  was_preempted_recently();
  preemption_counts_until_ = 0;
}

SynchronizedStart::~SynchronizedStart() {
  if (window_ != MPI_WIN_NULL) MPI_Win_free(&window_);
}

// Pauses once in a spin loop. Calls MPI_Iprobe occasionally, because a peer may need progress by this rank to complete
// its own MPI call (a pending send).
void SynchronizedStart::pause_spinning(unsigned& spins) const {
  if (++spins % (should_yield_ ? 16 : 8192) == 0) {
    int flag = 0;
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm_, &flag, MPI_STATUS_IGNORE);
  }
  if (should_yield_)
    sched_yield();
  else
    cpu_pause();
}

// Returns whether another program has preempted this rank within the last 0.5 s, by the count of involuntary context
// switches.
bool SynchronizedStart::was_preempted_recently() {
  struct rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  if (usage.ru_nivcsw > num_preemptions_) {
    num_preemptions_ = usage.ru_nivcsw;
    preemption_counts_until_ = now() + preemption_memory_ticks_;
  }
  return now() < preemption_counts_until_;
}

// Same as pause_spinning(), but sleeps occasionally while another program competes for this core. A rank that spins
// while its peer is preempted uses up its own share of CPU time, and is then preempted when the peer runs again, so two
// such ranks hardly ever run at the same time. A sleeping rank does not use up its share.
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

// Returns the shortest of `num_tries` round trips, on rank 0: it bounds the clock offset most tightly. Only rank 0 and
// the peer take part.
SynchronizedStart::FlagRoundTrip SynchronizedStart::measure_fastest_round_trip(int peer, int num_tries) {
  FlagRoundTrip fastest_trip;
  unsigned spins = 0;
  for (int i = 1; i <= num_tries; ++i) {
    const std::uint64_t epoch = ++epoch_;
    if (rank_ == 0) {
      const Ticks sent = now();
      flag_lines_[0].epoch.store(epoch, std::memory_order_release);
      while (flag_lines_[1 + peer].epoch.load(std::memory_order_acquire) < epoch) pause_spinning(spins);
      const Ticks back = now();
      const auto trip = static_cast<double>(back - sent);
      if (trip < fastest_trip.ticks)
        fastest_trip = {trip,
                        static_cast<std::int64_t>(flag_lines_[1 + peer].time.load() - (sent + (back - sent) / 2))};
    } else if (rank_ == peer) {
      while (flag_lines_[0].epoch.load(std::memory_order_acquire) < epoch) pause_spinning(spins);
      flag_lines_[1 + peer].time.store(now(), std::memory_order_relaxed);
      flag_lines_[1 + peer].epoch.store(epoch, std::memory_order_release);
    }
  }
  return fastest_trip;
}

// Measures the clock offset of each rank by flag round trips with rank 0, one rank after the other.
void SynchronizedStart::measure_offsets() {
  constexpr int num_round_trips = 2000;
  double max_core_latency_ticks = 0;
  for (int peer = 1; peer < size_; ++peer) {
    FlagRoundTrip fastest_trip = measure_fastest_round_trip(peer, should_yield_ ? 20 : num_round_trips);
    max_core_latency_ticks = std::max(max_core_latency_ticks, fastest_trip.ticks / 2);
    MPI_Bcast(&fastest_trip.offset, 1, MPI_INT64_T, 0, comm_);
    if (rank_ == peer) clock_offset_ = fastest_trip.offset;
    // Ranks that took no part in the round trips wait here.
    MPI_Barrier(comm_);
  }
  core_latency_ticks_ = max_core_latency_ticks;
  MPI_Bcast(&core_latency_ticks_, 1, MPI_DOUBLE, 0, comm_);
}

// Reads the clock once per batch of round trips, and polls a flag without pauses at first, since clock reads and pauses
// would add to the latency.
double SynchronizedStart::measure_core_latency_ticks() {
  constexpr int num_batches = 4, round_trips_per_batch = 8;
  constexpr unsigned max_polls_without_pause = 4096;
  if (!flag_lines_ || size_ < 2) return 0.0;
  if (rank_ > 1) {
    epoch_ += num_batches * round_trips_per_batch;  // same epoch as on ranks 0 and 1
    return 0.0;
  }
  const auto wait = [this](const FlagLine& line, std::uint64_t epoch) {
    unsigned num_polls = 0, spins = 0;
    while (line.epoch.load(std::memory_order_acquire) < epoch)
      if (++num_polls > max_polls_without_pause) pause_or_sleep(spins);
  };
  double fastest_trip = std::numeric_limits<double>::max();
  for (int batch = 0; batch < num_batches; ++batch) {
    const Ticks sent = now();
    for (int trip = 0; trip < round_trips_per_batch; ++trip) {
      const std::uint64_t epoch = ++epoch_;
      if (rank_ == 0) flag_lines_[0].epoch.store(epoch, std::memory_order_release);
      wait(flag_lines_[rank_ == 0 ? 2 : 0], epoch);
      if (rank_ == 1) flag_lines_[2].epoch.store(epoch, std::memory_order_release);
    }
    fastest_trip = std::min(fastest_trip,
                            (static_cast<double>(now() - sent) - clock_overhead_ticks_) / (2 * round_trips_per_batch));
  }
  return rank_ == 0 ? std::max(fastest_trip, 1.0) : 0.0;
}

// A barrier through the flag lines. When all ranks have arrived, rank 0 calls release(), then lets the other ranks
// proceed.
template <class Pause, class Release>
void SynchronizedStart::wait_for_all_ranks(Pause pause_once, Release release) {
  const std::uint64_t epoch = ++epoch_;
  unsigned spins = 0;
  flag_lines_[1 + rank_].epoch.store(epoch, std::memory_order_release);
  if (rank_ == 0) {
    for (int peer = 1; peer < size_; ++peer)
      while (flag_lines_[1 + peer].epoch.load(std::memory_order_acquire) < epoch) pause_once(spins);
    release();
    flag_lines_[0].epoch.store(epoch, std::memory_order_release);
  } else {
    while (flag_lines_[0].epoch.load(std::memory_order_acquire) < epoch) pause_once(spins);
  }
}

Ticks SynchronizedStart::wait() {
  if (!flag_lines_) {
    MPI_Barrier(comm_);
    return now();
  }
  // Ranks that arrive early at the first barrier may sleep; the second, quick barrier ensures that no rank sleeps at
  // the start.
  wait_for_all_ranks([this](unsigned& spins) { pause_or_sleep(spins); }, [] {});
  wait_for_all_ranks([this](unsigned& spins) { pause_spinning(spins); },
                     [this] { flag_lines_[0].time.store(now() + start_margin_ticks_, std::memory_order_relaxed); });
  const Ticks start = flag_lines_[0].time.load(std::memory_order_relaxed) + static_cast<Ticks>(clock_offset_);
  Ticks current_ticks = now();
  while (current_ticks < start) current_ticks = now();
  return current_ticks;
}

}  // namespace nearfield::probe

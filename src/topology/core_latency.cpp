#include "topology/core_latency.hpp"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <thread>

#include "base/clock.hpp"

namespace nearfield::topology {
namespace {

constexpr int num_batches = 256;
constexpr std::uint64_t round_trips_per_batch = 8;  // per batch, that is, between two clock reads
constexpr double time_limit_ns = 50e6;

// Aligned to 128 bytes, so that adjacent-line prefetchers do not couple the two flags.
struct alignas(128) FlagLine {
  std::atomic<std::uint64_t> epoch{0};
};

bool bind_thread_to(int pu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(pu, &set);
  return pthread_setaffinity_np(pthread_self(), sizeof set, &set) == 0;
}

struct FlagPingPong {
  FlagLine request, reply;
  std::atomic<bool> has_given_up{false};
  std::atomic<int> num_bound_threads{0};
  double min_one_way_ticks = std::numeric_limits<double>::max();

  // Waits until the flag reaches `epoch`. Returns false after `deadline`, or if the other thread has given up. Polls
  // without pauses, and reads the clock rarely, since both would add to the latency.
  bool wait_for_epoch(const FlagLine& line, std::uint64_t epoch, Ticks deadline) {
    for (unsigned spins = 1; line.epoch.load(std::memory_order_acquire) < epoch; ++spins)
      if (spins % 1024 == 0 && (now() > deadline || has_given_up.load(std::memory_order_relaxed))) return false;
    return true;
  }

  void run_responder(int pu, Ticks deadline) {
    if (bind_thread_to(pu)) ++num_bound_threads;
    for (std::uint64_t epoch = 1; epoch <= num_batches * round_trips_per_batch; ++epoch) {
      if (!wait_for_epoch(request, epoch, deadline)) return;
      reply.epoch.store(epoch, std::memory_order_release);
    }
  }

  void run_requester(int pu, Ticks deadline) {
    if (bind_thread_to(pu)) ++num_bound_threads;
    const auto overhead = static_cast<double>(min_clock_overhead());
    std::uint64_t epoch = 0;
    for (int batch = 0; batch < num_batches; ++batch) {
      const Ticks start = now();
      for (std::uint64_t trip = 0; trip < round_trips_per_batch; ++trip) {
        request.epoch.store(++epoch, std::memory_order_release);
        if (!wait_for_epoch(reply, epoch, deadline)) return has_given_up.store(true);
      }
      min_one_way_ticks =
          std::min(min_one_way_ticks, (static_cast<double>(now() - start) - overhead) / (2 * round_trips_per_batch));
    }
  }
};

}  // namespace

double measure_c2c_latency_ns(int pu_a, int pu_b) {
  const double ticks_per_ns = measure_ticks_per_ns(2e-3);
  const Ticks deadline = now() + static_cast<Ticks>(time_limit_ns * ticks_per_ns);
  FlagPingPong ping_pong;
  std::thread responder([&] { ping_pong.run_responder(pu_b, deadline); });
  std::thread requester([&] { ping_pong.run_requester(pu_a, deadline); });
  requester.join();
  responder.join();
  const bool is_measured =
      ping_pong.num_bound_threads == 2 && ping_pong.min_one_way_ticks < time_limit_ns * ticks_per_ns;
  return is_measured ? ping_pong.min_one_way_ticks / ticks_per_ns : 0.0;
}

}  // namespace nearfield::topology

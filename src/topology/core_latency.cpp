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

constexpr int batches = 256;
constexpr std::uint64_t round_trips = 8;  // per batch, that is, between two clock reads
constexpr double limit_ns = 50e6;

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
  std::atomic<bool> given_up{false};
  std::atomic<int> bound{0};
  double fastest = std::numeric_limits<double>::max();

  // Waits until the flag reaches `epoch`. Returns false after the time `end`, or if the other thread has given up.
  // Polls without pauses, and reads the clock rarely: both would add to the latency.
  bool wait_for_epoch(const FlagLine& line, std::uint64_t epoch, Ticks end) {
    for (unsigned spins = 1; line.epoch.load(std::memory_order_acquire) < epoch; ++spins)
      if (spins % 1024 == 0 && (now() > end || given_up.load(std::memory_order_relaxed))) return false;
    return true;
  }

  void run_responder(int pu, Ticks end) {
    if (bind_thread_to(pu)) ++bound;
    for (std::uint64_t epoch = 1; epoch <= batches * round_trips; ++epoch) {
      if (!wait_for_epoch(request, epoch, end)) return;
      reply.epoch.store(epoch, std::memory_order_release);
    }
  }

  void run_requester(int pu, Ticks end) {
    if (bind_thread_to(pu)) ++bound;
    const auto overhead = static_cast<double>(min_clock_overhead());
    std::uint64_t epoch = 0;
    for (int batch = 0; batch < batches; ++batch) {
      const Ticks sent = now();
      for (std::uint64_t trip = 0; trip < round_trips; ++trip) {
        request.epoch.store(++epoch, std::memory_order_release);
        if (!wait_for_epoch(reply, epoch, end)) return given_up.store(true);
      }
      fastest = std::min(fastest, (static_cast<double>(now() - sent) - overhead) / (2 * round_trips));
    }
  }
};

}  // namespace

double c2c_latency_ns(int pu_a, int pu_b) {
  const double ticks_per_ns = measure_ticks_per_ns(2e-3);
  const Ticks end = now() + static_cast<Ticks>(limit_ns * ticks_per_ns);
  FlagPingPong all;
  std::thread responder([&] { all.run_responder(pu_b, end); });
  std::thread requester([&] { all.run_requester(pu_a, end); });
  requester.join();
  responder.join();
  const bool measured = all.bound == 2 && all.fastest < limit_ns * ticks_per_ns;
  return measured ? all.fastest / ticks_per_ns : 0.0;
}

}  // namespace nearfield::topology

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
constexpr std::uint64_t round_trips = 8;  // of a batch, between two readings of the clock
constexpr double limit_ns = 50e6;

// 128 bytes: adjacent-line prefetchers must not couple the two.
struct alignas(128) Line {
  std::atomic<std::uint64_t> epoch{0};
};

bool bind_to(int pu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(pu, &set);
  return pthread_setaffinity_np(pthread_self(), sizeof set, &set) == 0;
}

struct Exchanges {
  Line request, reply;
  std::atomic<bool> over{false};
  std::atomic<int> bound{0};
  double fastest = std::numeric_limits<double>::max();

  // Returns whether the line reached the epoch in time. A flag is looked at as often as possible: a pause, or the clock,
  // would be part of the latency.
  bool wait(const Line& line, std::uint64_t epoch, Ticks end) {
    for (unsigned spins = 1; line.epoch.load(std::memory_order_acquire) < epoch; ++spins)
      if (spins % 1024 == 0 && (now() > end || over.load(std::memory_order_relaxed))) return false;
    return true;
  }

  void responder(int pu, Ticks end) {
    if (bind_to(pu)) ++bound;
    for (std::uint64_t epoch = 1; epoch <= batches * round_trips; ++epoch) {
      if (!wait(request, epoch, end)) return;
      reply.epoch.store(epoch, std::memory_order_release);
    }
  }

  void requester(int pu, Ticks end) {
    if (bind_to(pu)) ++bound;
    const auto overhead = static_cast<double>(min_clock_overhead());
    std::uint64_t epoch = 0;
    for (int batch = 0; batch < batches; ++batch) {
      const Ticks sent = now();
      for (std::uint64_t trip = 0; trip < round_trips; ++trip) {
        request.epoch.store(++epoch, std::memory_order_release);
        if (!wait(reply, epoch, end)) return over.store(true);
      }
      fastest = std::min(fastest, (static_cast<double>(now() - sent) - overhead) / (2 * round_trips));
    }
  }
};

}  // namespace

double c2c_latency_ns(int pu_a, int pu_b) {
  const double ticks_per_ns = measure_ticks_per_ns(2e-3);
  const Ticks end = now() + static_cast<Ticks>(limit_ns * ticks_per_ns);
  Exchanges all;
  std::thread responder([&] { all.responder(pu_b, end); });
  std::thread requester([&] { all.requester(pu_a, end); });
  requester.join();
  responder.join();
  const bool measured = all.bound == 2 && all.fastest < limit_ns * ticks_per_ns;
  return measured ? all.fastest / ticks_per_ns : 0.0;
}

}  // namespace nearfield::topology

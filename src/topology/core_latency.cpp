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

constexpr std::uint64_t exchanges = 2000;
constexpr double limit_ns = 50e6;

// 128 bytes: adjacent-line prefetchers must not couple the two.
struct alignas(128) Line {
  std::atomic<std::uint64_t> epoch{0};
  std::atomic<Ticks> time{0};
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

  void responder(int pu) {
    if (bind_to(pu)) ++bound;
    for (std::uint64_t epoch = 1; epoch <= exchanges; ++epoch) {
      while (request.epoch.load(std::memory_order_acquire) < epoch) {
        if (over.load(std::memory_order_relaxed)) return;
        cpu_pause();
      }
      reply.time.store(now(), std::memory_order_relaxed);
      reply.epoch.store(epoch, std::memory_order_release);
    }
  }

  void requester(int pu, Ticks limit) {
    if (bind_to(pu)) ++bound;
    const Ticks end = now() + limit;
    for (std::uint64_t epoch = 1; epoch <= exchanges; ++epoch) {
      const Ticks sent = now();
      request.epoch.store(epoch, std::memory_order_release);
      while (reply.epoch.load(std::memory_order_acquire) < epoch) {
        if (now() > end) return over.store(true);
        cpu_pause();
      }
      fastest = std::min(fastest, static_cast<double>(now() - sent));
    }
  }
};

}  // namespace

double c2c_latency_ns(int pu_a, int pu_b) {
  const double ticks_per_ns = measure_ticks_per_ns(2e-3);
  Exchanges all;
  std::thread responder([&] { all.responder(pu_b); });
  std::thread requester([&] { all.requester(pu_a, static_cast<Ticks>(limit_ns * ticks_per_ns)); });
  requester.join();
  responder.join();
  const bool measured = all.bound == 2 && all.fastest < limit_ns * ticks_per_ns;
  return measured ? all.fastest / 2 / ticks_per_ns : 0.0;
}

}  // namespace nearfield::topology

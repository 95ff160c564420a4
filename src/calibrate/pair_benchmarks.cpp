// The benchmarks of two cores that work on the same lines in turn. One thread prepares, the other one is timed; two
// flags pass the turn.
#include <atomic>
#include <stdexcept>
#include <thread>

#include "calibrate/benchmarks.hpp"
#include "calibrate/timing.hpp"

namespace nearfield::calibrate {
namespace {

constexpr std::size_t line_bytes = 64;
constexpr double limit_ns = 100e6;  // of one turn: then other programs have the other core

void store_lines(std::byte* begin, std::size_t lines, char value) {
  for (std::size_t i = 0; i < lines; ++i) *reinterpret_cast<volatile char*>(begin + i * line_bytes + 32) = value;
}

std::uint64_t read_words(const std::byte* begin, std::size_t bytes) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < bytes; i += 8) sum += *reinterpret_cast<const volatile std::uint64_t*>(begin + i);
  return sum;
}

class Turns {
 public:
  // Returns false if the other thread did not give the turn back in time.
  bool wait_for(int turn) {
    const Ticks end = now() + static_cast<Ticks>(limit_ns / ns_per_tick());
    while (turn_.load(std::memory_order_acquire) != turn) {
      if (is_over_.load(std::memory_order_relaxed) || now() > end) {
        is_over_.store(true);
        return false;
      }
      cpu_pause();
    }
    return true;
  }
  void pass(int turn) { turn_.store(turn, std::memory_order_release); }
  void end() { is_over_.store(true); }

 private:
  alignas(128) std::atomic<int> turn_{0};
  alignas(128) std::atomic<bool> is_over_{false};
};

class Pair {
 public:
  Pair(const Block& block, std::size_t bytes, PairStep step)
      : begin_(block.data()), bytes_(bytes), step_(step), lines_(bytes / line_bytes) {}

  // On the core that is timed, before the other core's turn.
  void prepare_own() const {
    if (step_ == PairStep::store_read) store_lines(begin_, lines_, 2);
  }
  void prepare_other() {
    switch (step_) {
      case PairStep::chase_written:
        first_ = link_chain(begin_, lines_, line_bytes, false);
        break;
      case PairStep::read_written:
      case PairStep::store_written:
        store_lines(begin_, lines_, 3);
        break;
      case PairStep::store_read:
        sum_ += read_words(begin_, bytes_);
        break;
    }
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }
  double time_ns() {
    const Ticks start = now();
    if (step_ == PairStep::chase_written) {
      void* at = first_;
      for (std::size_t i = 0; i < lines_; ++i) at = *static_cast<void**>(at);
      hide(at);
    } else if (step_ == PairStep::read_written) {
      sum_ += read_words(begin_, bytes_);
    } else {
      store_lines(begin_, lines_, 4);
      std::atomic_thread_fence(std::memory_order_seq_cst);
    }
    return static_cast<double>(now() - start) * ns_per_tick() / static_cast<double>(lines_);
  }

 private:
  std::byte* begin_;
  std::size_t bytes_;
  PairStep step_;
  std::size_t lines_;
  void** first_ = nullptr;
  std::uint64_t sum_ = 0;
};

}  // namespace

Samples pair_ns(const Block& block, std::size_t bytes, PairStep step, int pu, int other_pu, int samples) {
  if (bytes > block.size() || bytes < line_bytes) throw std::invalid_argument("the block is too small");
  ns_per_tick();
  Pair pair(block, bytes, step);
  Turns turns;
  std::atomic<int> bound{0};
  Samples all;
  std::thread other([&] {
    bound += bind_to(other_pu);
    for (int i = 0; i < samples; ++i) {
      if (!turns.wait_for(2 * i + 1)) return;
      pair.prepare_other();
      turns.pass(2 * i + 2);
    }
  });
  std::thread timed([&] {
    bound += bind_to(pu);
    for (int i = 0; i < samples; ++i) {
      pair.prepare_own();
      turns.pass(2 * i + 1);
      if (!turns.wait_for(2 * i + 2)) return;
      all.push_back(pair.time_ns());
    }
    turns.end();
  });
  timed.join();
  other.join();
  if (bound != 2) throw std::runtime_error("the two cores may not be used");
  return all;
}

}  // namespace nearfield::calibrate

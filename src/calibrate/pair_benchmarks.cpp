// The benchmarks of two cores that access the same lines alternately. One thread prepares the lines, then the other
// thread is timed; the threads alternate by an atomic turn number.
#include <atomic>
#include <stdexcept>
#include <thread>

#include "calibrate/benchmarks.hpp"
#include "calibrate/timing.hpp"

namespace nearfield::calibrate {
namespace {

constexpr std::size_t cache_line_bytes = 64;
constexpr double turn_timeout_ns = 100e6;  // if a turn takes longer, other programs occupy the other core

void store_lines(std::byte* begin, std::size_t num_lines, char value) {
  for (std::size_t i = 0; i < num_lines; ++i)
    *reinterpret_cast<volatile char*>(begin + i * cache_line_bytes + 32) = value;
}

std::uint64_t read_words(const std::byte* begin, std::size_t bytes) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < bytes; i += 8) sum += *reinterpret_cast<const volatile std::uint64_t*>(begin + i);
  return sum;
}

class TurnFlag {
 public:
  // Waits for this turn. Returns false if the other thread does not pass the turn in time.
  bool wait_for_turn(int turn) {
    const Ticks end = now() + static_cast<Ticks>(turn_timeout_ns / ns_per_tick());
    while (turn_.load(std::memory_order_acquire) != turn) {
      if (is_over_.load(std::memory_order_relaxed) || now() > end) {
        is_over_.store(true);
        return false;
      }
      cpu_pause();
    }
    return true;
  }
  void pass_turn(int turn) { turn_.store(turn, std::memory_order_release); }
  void end_turns() { is_over_.store(true); }

 private:
  alignas(128) std::atomic<int> turn_{0};
  alignas(128) std::atomic<bool> is_over_{false};
};

class CorePair {
 public:
  CorePair(const MemoryBlock& block, std::size_t bytes, PairStep step)
      : begin_(block.data()), bytes_(bytes), step_(step), num_lines_(bytes / cache_line_bytes) {}

  // Prepares the lines on the timed core, before the other core's turn.
  void prepare_on_timed_core() const {
    if (step_ == PairStep::store_read) store_lines(begin_, num_lines_, 2);
  }
  void prepare_on_other_core() {
    switch (step_) {
      case PairStep::chase_written:
        first_element_ = link_pointer_chain(begin_, num_lines_, cache_line_bytes, false);
        break;
      case PairStep::read_written:
      case PairStep::store_written:
        store_lines(begin_, num_lines_, 3);
        break;
      case PairStep::store_read:
        sum_ += read_words(begin_, bytes_);
        break;
    }
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }
  double measure_time_per_line_ns() {
    const Ticks start = now();
    if (step_ == PairStep::chase_written) {
      void* at = first_element_;
      for (std::size_t i = 0; i < num_lines_; ++i) at = *static_cast<void**>(at);
      hide_from_compiler(at);
    } else if (step_ == PairStep::read_written) {
      sum_ += read_words(begin_, bytes_);
    } else {
      store_lines(begin_, num_lines_, 4);
      std::atomic_thread_fence(std::memory_order_seq_cst);
    }
    return static_cast<double>(now() - start) * ns_per_tick() / static_cast<double>(num_lines_);
  }

 private:
  std::byte* begin_;
  std::size_t bytes_;
  PairStep step_;
  std::size_t num_lines_;
  void** first_element_ = nullptr;
  std::uint64_t sum_ = 0;
};

}  // namespace

Samples measure_pair_ns(const MemoryBlock& block, std::size_t bytes, PairStep step, int pu, int other_pu,
                        int num_samples) {
  if (bytes > block.size() || bytes < cache_line_bytes) throw std::invalid_argument("the block is too small");
  ns_per_tick();
  CorePair pair(block, bytes, step);
  TurnFlag turns;
  std::atomic<int> num_pinned_threads{0};
  Samples samples;
  std::thread other_thread([&] {
    num_pinned_threads += pin_thread_to(other_pu);
    for (int i = 0; i < num_samples; ++i) {
      if (!turns.wait_for_turn(2 * i + 1)) return;
      pair.prepare_on_other_core();
      turns.pass_turn(2 * i + 2);
    }
  });
  std::thread timed_thread([&] {
    num_pinned_threads += pin_thread_to(pu);
    for (int i = 0; i < num_samples; ++i) {
      pair.prepare_on_timed_core();
      turns.pass_turn(2 * i + 1);
      if (!turns.wait_for_turn(2 * i + 2)) return;
      samples.push_back(pair.measure_time_per_line_ns());
    }
    turns.end_turns();
  });
  timed_thread.join();
  other_thread.join();
  if (num_pinned_threads != 2) throw std::runtime_error("the two cores may not be used");
  return samples;
}

}  // namespace nearfield::calibrate

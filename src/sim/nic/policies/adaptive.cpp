// Chooses targets by message size and by counters, which paper S4 (papers/S4/README.md), section 6, leaves as future
// work. Events and small messages go to the L2, medium messages to the last-level cache, long messages to memory. After
// every window of injected lines, the policy checks how many of these lines were evicted unused. If too many were, the
// policy writes to memory for as many lines as `pause` windows have, then injects again.
#include <algorithm>

#include "machine/machine.hpp"
#include "sim/memory/counts.hpp"
#include "sim/nic/policy.hpp"

namespace nearfield::sim {
namespace {

class AdaptivePolicy final : public Policy {
 public:
  AdaptivePolicy(const Machine& machine, const PolicyValues& values)
      : limits_{static_cast<std::uint64_t>(values[0]), static_cast<std::uint64_t>(values[1]),
                static_cast<std::uint64_t>(values[2]), static_cast<std::uint64_t>(values[3])},
        last_level_(static_cast<int>(machine.caches.size()) - 1),
        near_level_(std::min(1, last_level_)),
        max_bytes_(machine.caches.back().size_bytes / 2) {
    for (const auto& cache : machine.caches)
      line_bytes_ = std::max(line_bytes_, static_cast<std::uint64_t>(cache.line_bytes / std::max(1, cache.sub_blocks)));
  }

  InjectionTarget choose_target(const IncomingWrite& incoming, const CounterReader& counters) override {
    const bool header = incoming.kind == IncomingWrite::Kind::header;
    const std::uint64_t lines = header ? 1 : incoming.bytes / line_bytes_;
    if (remaining_pause_lines_ > 0) {
      remaining_pause_lines_ -= std::min(remaining_pause_lines_, lines);
      if (remaining_pause_lines_ == 0)
        end_window(counters);  // evictions during the pause belong to the window before it
      return {};
    }
    if (!header && incoming.message_bytes > max_bytes_) return {};
    injected_lines_ += lines;
    if (injected_lines_ >= limits_.window && end_window(counters)) {
      remaining_pause_lines_ = limits_.window * limits_.pause;
      return {};
    }
    return target_in_level(header || incoming.message_bytes <= limits_.small_bytes ? near_level_ : last_level_,
                           incoming);
  }

 private:
  // Ends the current window of injected lines. Returns whether too many of its lines were evicted unused.
  bool end_window(const CounterReader& counters) {
    Count injections = 0, unused = 0;
    for (const auto& level : counters.counts().levels) {
      injections += level.injections;
      unused += level.injected_unused;
    }
    const Count window = injections - injections_before_window_, lost_unused = unused - unused_before_window_;
    injections_before_window_ = injections;
    unused_before_window_ = unused;
    injected_lines_ = 0;
    return lost_unused * 100 > window * limits_.leak_percent;
  }

  struct {
    std::uint64_t small_bytes, window, leak_percent, pause;
  } limits_;
  int last_level_, near_level_;
  std::uint64_t max_bytes_;
  std::uint64_t line_bytes_ = 1;
  std::uint64_t injected_lines_ = 0, remaining_pause_lines_ = 0;   // lines
  Count injections_before_window_ = 0, unused_before_window_ = 0;  // the counters when the current window began
};

}  // namespace

extern const PolicySpec adaptive_policy;
const PolicySpec adaptive_policy{
    "adaptive",
    "by message size, and to memory while injected lines are lost unused (S4.8)",
    {{"small_bytes", 4096, 0, 1 << 30, "up to here near the core, beyond in the last level"},
     {"window", 1024, 1, 1 << 30, "injected lines between two looks at the counters"},
     {"leak_percent", 25, 0, 100, "lost unused, of a window, that is too much"},
     {"pause", 4, 1, 1 << 20, "windows that then go to memory"}},
    1,
    make_implementation<Policy, AdaptivePolicy>};

}  // namespace nearfield::sim

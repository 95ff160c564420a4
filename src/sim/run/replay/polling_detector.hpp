// Recognizes polling loops: a failed Test or Iprobe that follows another failed one with at most
// max_accesses_between_polls memory accesses in between.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "trace/stream/events.hpp"

namespace nearfield::sim::replay {

using Query = stream::Query;

class PollingDetector {
 public:
  void add_accesses(std::uint64_t count) { accesses_ += count; }
  void record_failed_poll() { last_failed_poll_ = accesses_; }
  // Returns whether the last poll failed, and at most max_accesses_between_polls memory accesses have followed.
  bool is_polling() const { return last_failed_poll_ && !has_computed_since_poll(); }

  // ---- for a program that runs live, whose polling loop may repeat several queries in turn
  void record_query(const Query& query, bool has_failed) {
    if (has_failed)
      failed_queries_.push_back(query);
    else
      end_polling_loop();
  }
  void end_polling_loop() { failed_queries_.clear(); }
  // Returns whether the query repeats a failed query of the current loop.
  bool is_repeated_query(const Query& query) {
    if (last_failed_poll_ && has_computed_since_poll()) end_polling_loop();
    return std::ranges::find(failed_queries_, query) != failed_queries_.end();
  }

 private:
  static constexpr std::uint64_t max_accesses_between_polls = 16;

  bool has_computed_since_poll() const { return accesses_ - *last_failed_poll_ > max_accesses_between_polls; }

  std::uint64_t accesses_ = 0;
  std::optional<std::uint64_t> last_failed_poll_;  // number of accesses before the last failed poll
  std::vector<Query> failed_queries_;              // of the current loop
};

}  // namespace nearfield::sim::replay

// Recognises polling loops: a failed Test or Iprobe that follows another one with hardly a memory access between them.
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
  // Returns whether the last poll failed, with hardly an access since.
  bool is_polling() const { return last_failed_poll_ && !has_computed(); }

  // ---- of a program that runs live: its loop may repeat several queries in turn.
  void record_query(const Query& query, bool failed) {
    if (failed)
      failed_queries_.push_back(query);
    else
      end_loop();
  }
  void end_loop() { failed_queries_.clear(); }
  // Returns whether the query repeats a failed one of the current loop.
  bool is_repeated(const Query& query) {
    if (last_failed_poll_ && has_computed()) end_loop();
    return std::ranges::find(failed_queries_, query) != failed_queries_.end();
  }

 private:
  static constexpr std::uint64_t max_accesses_between_polls = 16;

  bool has_computed() const { return accesses_ - *last_failed_poll_ > max_accesses_between_polls; }

  std::uint64_t accesses_ = 0;
  std::optional<std::uint64_t> last_failed_poll_;  // the number of accesses before it
  std::vector<Query> failed_queries_;              // of the current loop
};

}  // namespace nearfield::sim::replay

// The recorded matches of receives with MPI_ANY_SOURCE or MPI_ANY_TAG. The stream records a match at the call that
// completed the receive, which may be long after the receive was posted. So the events of the stream are read a second
// time, ahead of the replay; streams without such receives are read once.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>

#include "trace/stream/source.hpp"

namespace nearfield::sim::replay {

// Opens a second source of the stream, which reads from the beginning, or from a position that the replay has not
// passed.
using Open = std::function<std::unique_ptr<stream::Source>()>;

inline bool has_wildcard(const stream::Receive& receive) {
  return receive.peer == stream::any || (receive.tag == stream::any && receive.peer != stream::proc_null);
}

class RecordedMatches {
 public:
  explicit RecordedMatches(Open open) : open_(std::move(open)) {}

  // Is called for each receive for which has_wildcard() holds, in the order of the stream. Returns the match of the
  // receive; nullopt if the stream has none.
  std::optional<stream::Outcome> next_match();

 private:
  struct StartedReceive {
    bool over = false;
    std::optional<stream::Outcome> got;
  };
  bool read_event();
  void record_completion(stream::Number request, const std::optional<stream::Outcome>& got);

  Open open_;
  std::unique_ptr<stream::Source> source_;
  std::vector<stream::Reference> skipped_;
  std::deque<StartedReceive> begun_;                            // receives whose matches next_match() has not returned
  std::size_t returned_ = 0;                                    // number of matches that next_match() has returned
  std::unordered_map<stream::Number, std::size_t> by_request_;  // number of the receive among those with wildcards
};

}  // namespace nearfield::sim::replay

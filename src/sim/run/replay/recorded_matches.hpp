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

// Opens a second source of the stream, which reads from the beginning or from a position that the replay has not yet
// passed.
using OpenSource = std::function<std::unique_ptr<stream::StreamSource>()>;

inline bool has_wildcard(const stream::Receive& receive) {
  return receive.peer == stream::any_source_or_tag ||
         (receive.tag == stream::any_source_or_tag && receive.peer != stream::proc_null);
}

class RecordedMatches {
 public:
  explicit RecordedMatches(OpenSource open_source) : open_source_(std::move(open_source)) {}

  // Must be called for each receive for which has_wildcard() holds, in the order of the stream. Returns the match of
  // the receive; nullopt if the stream has none.
  std::optional<stream::Outcome> next_match();

 private:
  struct StartedReceive {
    bool is_complete = false;
    std::optional<stream::Outcome> match;
  };
  bool read_event();
  void record_completion(stream::Number request, const std::optional<stream::Outcome>& match);

  OpenSource open_source_;
  std::unique_ptr<stream::StreamSource> source_;
  std::vector<stream::Reference> skipped_accesses_;
  std::deque<StartedReceive> started_receives_;  // receives whose matches next_match() has not returned
  std::size_t num_returned_ = 0;                 // number of matches that next_match() has returned
  std::unordered_map<stream::Number, std::size_t>
      receive_number_by_request_;  // number of the receive among those with wildcards
};

}  // namespace nearfield::sim::replay

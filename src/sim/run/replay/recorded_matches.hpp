// The recorded matches of receives with MPI_ANY_SOURCE or MPI_ANY_TAG. The stream has the match at the call that
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

// Opens a source that reads the stream from its beginning, or from a position that the replay has not passed.
using Open = std::function<std::unique_ptr<stream::Source>()>;

inline bool from_any(const stream::Receive& receive) {
  return receive.peer == stream::any || (receive.tag == stream::any && receive.peer != stream::proc_null);
}

class RecordedMatches {
 public:
  explicit RecordedMatches(Open open) : open_(std::move(open)) {}

  // Is called for each receive that is from_any, in the order of the stream. Returns its match; nullopt if the stream
  // has none.
  std::optional<stream::Outcome> next();

 private:
  struct Begun {
    bool over = false;
    std::optional<stream::Outcome> got;
  };
  bool read_event();
  void end(stream::Number request, const std::optional<stream::Outcome>& got);

  Open open_;
  std::unique_ptr<stream::Source> source_;
  std::vector<stream::Reference> skipped_;
  std::deque<Begun> begun_;                                     // receives that next() has not returned
  std::size_t returned_ = 0;                                    // number of receives that next() has returned
  std::unordered_map<stream::Number, std::size_t> by_request_;  // index of the receive among all of them
};

}  // namespace nearfield::sim::replay

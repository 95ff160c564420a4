// The messages that a program's receives with MPI_ANY_SOURCE or MPI_ANY_TAG got. The stream says which when the program
// learned it, which may be long after the receive began. So the stream is read a second time, ahead of the replay, for its
// events alone; streams without such receives are not.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>

#include "stream/source.hpp"

namespace nearfield::sim::replay {

// Returns a source that reads the stream from its beginning, or from no later than where the replay is now.
using Open = std::function<std::unique_ptr<stream::Source>()>;

inline bool from_any(const stream::Receive& receive) {
  return receive.peer == stream::any || (receive.tag == stream::any && receive.peer != stream::proc_null);
}

class Outcomes {
 public:
  explicit Outcomes(Open open) : open_(std::move(open)) {}

  // Is called for each receive that is from_any, in the order of the stream. Returns what it got; nothing if the program
  // never learned it.
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
  std::deque<Begun> begun_;                                     // those that next() has not returned
  std::size_t returned_ = 0;                                    // by next()
  std::unordered_map<stream::Number, std::size_t> by_request_;  // which of all these receives it is
};

}  // namespace nearfield::sim::replay

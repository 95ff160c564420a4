// Counts repeated polls (calls such as MPI_Test) that find nothing without reading the clock, since a program may make
// a hundred million of them per minute. After `max_untimed_polls` untimed polls, one poll is timed again. Untimed
// polls, and the program's work between them, are assumed to last as long as the last timed poll and the work before
// it, but in total no longer than until the thread's next reading of the clock. Infrequent polls are all timed.
#pragma once

#include <algorithm>
#include <cstdint>

#include "preload/forecast/describe.hpp"
#include "preload/forecast/record.hpp"
#include "preload/forecast/shape.hpp"
#include "preload/mpi/handles.hpp"

namespace nearfield::forecast {

inline constexpr std::uint64_t max_untimed_polls = 63;
inline constexpr std::uint64_t max_untimed_ticks = 10'000;  // polls further apart are all timed

// The last timed poll of a thread, and the untimed polls after it.
struct PollState {
  std::uint64_t ended = 0;                // when the last poll ended, in ticks; 0 if the last call was no poll
  const MpiFunction* function = nullptr;  // function of the last poll; null if the next poll must be timed
  const void* site = nullptr;
  Word requests = 0;  // number of requests, if the function takes an array of them
  MPI_Request first_request{};
  CallDescription did;  // description of the poll if it completes the first request
  Row* row = nullptr;
  std::uint64_t call = 0, gap = 0;  // ticks in the timed poll, and between it and the previous poll
  std::uint64_t untimed = 0;        // number of untimed polls
};
inline thread_local constinit __attribute__((tls_model("initial-exec"))) PollState poll_state;

inline MPI_Request first_request(const CallShape& shape, const Word* arguments) {
  return *reinterpret_cast<const MPI_Request*>(arguments[shape.requests]);
}

inline bool is_repeated_poll(const PollState& last, const MpiFunction& function, const void* site,
                             const CallShape& shape, const Word* arguments) {
  return last.function == &function && last.site == site && last.untimed < max_untimed_polls &&
         (shape.how_many < 0 || arguments[shape.how_many] == last.requests) &&
         (shape.requests < 0 || first_request(shape, arguments) == last.first_request);
}

// Returns whether a successful poll found nothing: its flag or count argument is 0 or MPI_UNDEFINED.
inline bool has_poll_found_nothing(const CallShape& shape, const Word* arguments) {
  return *reinterpret_cast<const int*>(arguments[shape.found]) <= 0;  // MPI_UNDEFINED is negative, too
}

// Called after a timed poll that found nothing: further polls of the same requests are counted without reading the
// clock, and assumed to last as long as this poll.
inline void begin_untimed_polls(PollState& last, const MpiFunction& function, const void* site, const CallShape& shape,
                                const Word* arguments) {
  if (last.call + last.gap > max_untimed_ticks) return;
  if (shape.how_many >= 0 && static_cast<int>(arguments[shape.how_many]) <= 0) return;
  if (shape.how_many >= 0) last.requests = arguments[shape.how_many];
  if (shape.requests >= 0) last.first_request = first_request(shape, arguments);
  last.function = &function;
  last.site = site;
}

// Adds the time and the number of the untimed polls to their row when the clock is read again. Returns the ticks since
// the last poll; 0 if the thread's last call was not a poll.
inline std::uint64_t count_untimed_polls(PollState& last, Table& table, std::uint64_t now) {
  if (!last.ended) return 0;
  const std::uint64_t elapsed = now - last.ended, one = last.call + last.gap;
  const std::uint64_t all = std::min(elapsed, last.untimed * one);
  if (all) {
    const double share = static_cast<double>(last.call) / static_cast<double>(one);
    const auto in_calls = static_cast<std::uint64_t>(share * static_cast<double>(all));
    last.row->ticks += in_calls;
    last.row->between += all - in_calls;
  }
  if (last.row) last.row->calls += last.untimed;
  table.untimed += last.untimed;
  last.untimed = 0;
  return elapsed - all;
}

}  // namespace nearfield::forecast

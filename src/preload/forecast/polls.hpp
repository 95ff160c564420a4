// Without reading the clock, counts repeated polls (calls such as MPI_Test) that find nothing, since a program may make
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
  std::uint64_t end_ticks = 0;            // when the last poll ended, in ticks; 0 if the last call was no poll
  const MpiFunction* function = nullptr;  // function of the last poll; null if the next poll must be timed
  const void* call_site = nullptr;
  ArgumentWord num_requests = 0;  // number of requests, if the function takes an array of them
  MPI_Request first_request{};
  CallDescription description;  // description of the poll if it completes the first request
  CallRow* row = nullptr;
  std::uint64_t call_ticks = 0, gap_ticks = 0;  // ticks in the timed poll, and between it and the previous poll
  std::uint64_t num_untimed = 0;                // number of untimed polls
};
inline thread_local constinit __attribute__((tls_model("initial-exec"))) PollState poll_state;

inline MPI_Request first_request(const ArgumentPositions& positions, const ArgumentWord* arguments) {
  return *reinterpret_cast<const MPI_Request*>(arguments[positions.requests]);
}

inline bool is_repeated_poll(const PollState& poll, const MpiFunction& function, const void* site,
                             const ArgumentPositions& positions, const ArgumentWord* arguments) {
  return poll.function == &function && poll.call_site == site && poll.num_untimed < max_untimed_polls &&
         (positions.request_count < 0 || arguments[positions.request_count] == poll.num_requests) &&
         (positions.requests < 0 || first_request(positions, arguments) == poll.first_request);
}

// Returns whether a successful poll found nothing: its flag or count argument is 0 or MPI_UNDEFINED.
inline bool has_poll_found_nothing(const ArgumentPositions& positions, const ArgumentWord* arguments) {
  return *reinterpret_cast<const int*>(arguments[positions.flag_or_count]) <= 0;  // MPI_UNDEFINED is negative, too
}

// Called after a timed poll that found nothing: further polls of the same requests are counted without reading the
// clock, and assumed to last as long as this poll.
inline void begin_untimed_polls(PollState& poll, const MpiFunction& function, const void* site,
                                const ArgumentPositions& positions, const ArgumentWord* arguments) {
  if (poll.call_ticks + poll.gap_ticks > max_untimed_ticks) return;
  if (positions.request_count >= 0 && static_cast<int>(arguments[positions.request_count]) <= 0) return;
  if (positions.request_count >= 0) poll.num_requests = arguments[positions.request_count];
  if (positions.requests >= 0) poll.first_request = first_request(positions, arguments);
  poll.function = &function;
  poll.call_site = site;
}

// Adds the time and the number of the untimed polls to their row when the clock is read again. Returns the ticks since
// the last poll; 0 if the thread's last call was not a poll.
inline std::uint64_t count_untimed_polls(PollState& poll, ThreadTable& table, std::uint64_t now) {
  if (!poll.end_ticks) return 0;
  const std::uint64_t elapsed = now - poll.end_ticks, poll_ticks = poll.call_ticks + poll.gap_ticks;
  const std::uint64_t untimed_ticks = std::min(elapsed, poll.num_untimed * poll_ticks);
  if (untimed_ticks) {
    const double share = static_cast<double>(poll.call_ticks) / static_cast<double>(poll_ticks);
    const auto in_calls_ticks = static_cast<std::uint64_t>(share * static_cast<double>(untimed_ticks));
    poll.row->call_ticks += in_calls_ticks;
    poll.row->gap_ticks += untimed_ticks - in_calls_ticks;
  }
  if (poll.row) poll.row->num_calls += poll.num_untimed;
  table.num_untimed_calls += poll.num_untimed;
  poll.num_untimed = 0;
  return elapsed - untimed_ticks;
}

}  // namespace nearfield::forecast

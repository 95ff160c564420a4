// The nondeterministic outcomes of a rank's MPI calls: the message that a receive with a wildcard matches, the result
// of a Test or probe, the request that Waitany returns.
//
// RecordedOutcomes forces the outcomes that the stream recorded. A receive is posted for the recorded message; a failed
// Test or Iprobe costs one poll. Further failed polls of a polling loop cost nothing, since their number depends on how
// long the recorded run waited.
//
// LiveOutcomes lets the first policy at the first memory speed decide the outcomes, and replies to the program, which
// runs concurrently. A recording of a live stream also contains the program's queries, which take the same simulated
// time in a replay; the recorded results that follow them are replayed, and are the same if the machine is the same. If
// a program repeats a failed query, the reply waits for the rank's next event, so a polling loop costs one query per
// event.
#pragma once

#include <functional>
#include <unordered_map>

#include "sim/run/replay/polling_detector.hpp"
#include "sim/run/replay/race_counter.hpp"
#include "sim/run/replay/recorded_matches.hpp"
#include "trace/stream/live_reply.hpp"

namespace nearfield::sim::replay {

// How a call that tests requests or probes began.
struct CallStart {
  std::optional<ConfigClock> begin;  // nullopt: the call is a probe, which begins now
  bool is_polling = false;           // the call is a further iteration of a polling loop, which counts as a wait
};

class OutcomeSource {
 public:
  // The parts of a replayed rank that determine outcomes. They must outlive this object.
  struct RankParts {
    Endpoint& endpoint;
    StreamDefinitions& definitions;
    Requests& requests;
    RaceCounter& races;
    PollingDetector& polling;
  };
  virtual ~OutcomeSource() = default;
  // Posts a receive whose pattern in the program is `program_pattern`. Returns its request, which is empty if the
  // receive never matches.
  virtual Request post_receive(const stream::Receive& event, const Pattern& program_pattern, const Buffer& buffer) = 0;
  // Must be called before the recorded result of a Test or probe is replayed. If the MPI call polls, they poll.
  virtual Task<CallStart> begin_test(const stream::RequestsTested& event) = 0;
  virtual Task<CallStart> begin_probe(const stream::Probe& event, const Pattern& message) = 0;

 protected:
  explicit OutcomeSource(const RankParts& parts) : rank_(parts) {}
  RankParts rank_;
};

class RecordedOutcomes final : public OutcomeSource {
 public:
  RecordedOutcomes(const RankParts& parts, OpenSource open_source)
      : OutcomeSource(parts), recorded_matches_(std::move(open_source)) {}
  Request post_receive(const stream::Receive& event, const Pattern& program_pattern, const Buffer& buffer) override;
  Task<CallStart> begin_test(const stream::RequestsTested& event) override;
  Task<CallStart> begin_probe(const stream::Probe& event, const Pattern& message) override;

 private:
  bool is_loop_iteration(bool waited);
  RecordedMatches recorded_matches_;
};

// Sends a live program the words of a reply (stream/live_reply.hpp). Empty: the stream was recorded.
using SendReply = std::function<void(std::span<const std::int64_t> words)>;

class LiveOutcomes final : public OutcomeSource {
 public:
  LiveOutcomes(const RankParts& parts, const SendReply& send_reply);
  // Answers a query of the program, which blocks until the reply: decides the outcome of its current MPI call, such as
  // the flag of MPI_Test, or reports the simulated time.
  Task<> query(const Query& event);
  Request post_receive(const stream::Receive& event, const Pattern& program_pattern, const Buffer& buffer) override;
  Task<CallStart> begin_test(const stream::RequestsTested& event) override;
  Task<CallStart> begin_probe(const stream::Probe& event, const Pattern& message) override;

 private:
  void report_match(stream::Number request, int from, int tag);
  std::vector<std::int64_t> indices_of_done(const Query& event);
  Task<> decide_requests(const Query& event);
  Task<> decide_message(const Query& event);
  void send_reply(stream::ReplyKind reply_kind, const std::vector<std::int64_t>& words) const;

  const SendReply& send_reply_;
  CallStart call_start_;                         // of the last query
  std::vector<stream::Number> chosen_requests_;  // the completed requests that the simulator chose
  const Message* chosen_message_ = nullptr;      // the message that the simulator chose
  std::unordered_map<stream::Number, stream::Number>
      communicator_by_request_;  // of receives whose matches are to be reported
};

}  // namespace nearfield::sim::replay

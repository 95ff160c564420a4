// The program of one simulated rank that replays a stream: accesses go to the memory of the rank's node, events become
// calls of the simulated MPI.
//
// Nondeterministic outcomes are replayed as recorded, or decided by the simulator if the program runs live
// (outcomes.hpp). TimingSensitivity counts these outcomes, and the configurations in which they would differ. With
// another outcome the program might have behaved differently, but the stream contains only the recorded behavior.
//
// MPI calls that create communicators and datatypes, MPI_Init and MPI_Finalize take no time. Buffered sends are copied
// to memory of the library and sent from there.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "sim/run/cluster.hpp"
#include "sim/run/replay/accesses.hpp"
#include "sim/run/replay/call_times.hpp"
#include "sim/run/replay/first_reads.hpp"
#include "sim/run/replay/outcomes.hpp"

namespace nearfield::sim::replay {

struct ReplayOptions {
  // The names of the regions whose accesses and times count; empty: the whole program. Accesses outside these regions
  // are skipped, so a region begins with the cache contents that the previous region and later messages left. Messages
  // outside the regions are simulated to keep ranks synchronized, but their time is not counted.
  std::vector<std::string> regions;
  // If given, each rank starts at a pseudo-random time before max_start_delay that depends on this seed and the rank;
  // if not, all ranks start together. Another seed gives another order of the accesses of ranks that share caches.
  std::optional<std::uint64_t> start_seed;
  bool first_reads = false;  // measures how long received data lies before it is read (first_reads.hpp)
};

constexpr Ps max_start_delay = 100e3;

// The stream of one rank, and a function that opens it a second time if needed (recorded_matches.hpp).
struct RankStream {
  stream::StreamSource* source = nullptr;
  OpenSource open_again;
  FlopsOfSite flops;
  SendReply send_reply;
};

class ReplayedRank {
 public:
  // All arguments must outlive this object.
  ReplayedRank(const RankStream& stream, Rank& rank, const ReplayOptions& options, const ClusterOptions& cluster);

  // Throws std::runtime_error if the stream is unsupported, truncated, or that of another rank.
  Task<> run();

  CallTimes& call_times() { return call_times_; }
  const AccessReplay& access_replay() const { return access_replay_; }
  // Returns the data that a call site has received; nothing unless the options have first_reads.
  ReceivedData received_by(const CallTimes::CallKey& call) const { return first_reads_.received_by(call); }
  TimingSensitivity timing_sensitivity() const { return race_counter_.timing_sensitivity(); }
  // Returns the names of the regions that began.
  const std::set<std::string>& started_regions() const { return started_regions_; }
  StreamDefinitions& definitions() { return definitions_; }

 private:
  // Returns whether time currently counts: no regions were selected, or the rank is inside a selected region.
  bool is_timed() const { return options_.regions.empty() || open_regions_ > 0; }
  PerfCounters counters() const;
  void record_failed_poll();

  // Stores an event that defines a number.
  template <class Event>
    requires requires(StreamDefinitions definitions, const Event& event) { definitions.add_definition(event); }
  Task<> handle_event(const Event& event) {
    definitions_.add_definition(event);
    co_return;
  }
  Task<> handle_event(const stream::RankInfo& event);
  Task<> handle_event(const stream::Enter& event);
  Task<> handle_event(const stream::Leave& event);
  Task<> handle_event(const stream::Send& event);
  Task<> handle_event(const stream::Receive& event);
  Task<> handle_event(const stream::Outcome& event);
  Task<> handle_event(const stream::RequestsCompleted& event) { return requests_.complete_requests(event.requests); }
  Task<> handle_event(const stream::RequestsTested& event);
  Task<> handle_event(const stream::Probe& event);
  Task<> handle_event(const stream::RequestFreed& event);
  Task<> handle_event(const stream::Collective& event);
  Task<> handle_event(const stream::Region& event);
  Task<> handle_event(const stream::Unsupported& event);
  Task<> handle_event(const stream::End& event);
  // The live program has begun to wait and expects no reply: its requests complete on the host as soon as their
  // messages have arrived.
  Task<> handle_event(const stream::WaitStarted& event) { return requests_.complete_requests(event.requests); }
  Task<> handle_event(const Query& event);
  // These events are ignored; only other readers of streams use them.
  Task<> handle_event(const stream::Sites&) { co_return; }
  Task<> handle_event(const stream::StaticAndStackRanges&) { co_return; }
  // The source has changed the roles of loads accordingly.
  Task<> handle_event(const stream::Dependence&) { co_return; }

  const RankStream& stream_;
  Rank& rank_;
  const ReplayOptions& options_;
  const bool has_counters_;
  AddressSpace space_;
  FirstReads first_reads_;
  AccessReplay access_replay_;
  StreamDefinitions definitions_;
  Requests requests_;
  RaceCounter race_counter_;
  PollingDetector polling_detector_;
  RecordedOutcomes recorded_outcomes_;
  LiveOutcomes live_outcomes_;
  OutcomeSource* next_outcome_source_ =
      &recorded_outcomes_;  // source of the outcome of the next call that tests requests or probes
  std::optional<stream::Outcome> probed_message_;  // the message that the next probe found
  CallTimes call_times_;
  CallTimes::CallKey call_;
  int call_depth_ = 0;  // nesting depth of MPI calls
  int open_regions_ = 0;
  std::set<std::string> started_regions_;
};

}  // namespace nearfield::sim::replay

// The program of one simulated rank that replays a stream: accesses go to the memory of the rank's node, events become
// calls of the simulated MPI.
//
// Nondeterministic outcomes are replayed as recorded, or decided by the simulator if the program runs live
// (outcomes.hpp). TimingSensitivity counts these outcomes, and the configurations in which they would differ. With
// another outcome the program might have behaved differently; the stream has only what it did.
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
  // The names of the regions whose accesses and times count; empty: the whole program. Accesses outside them are
  // skipped, so a region begins with the cache contents that the previous region and later messages left. Messages
  // outside them are simulated to keep ranks synchronised, but their time is not counted.
  std::vector<std::string> regions;
  // If given, each rank starts at a random time before max_start_delay, which this seed and the rank determine; if not,
  // all ranks start together. Another seed gives another order of the accesses of ranks that share caches.
  std::optional<std::uint64_t> start_seed;
  bool first_reads = false;  // measures how long received data lies before it is read (first_reads.hpp)
};

constexpr Ps max_start_delay = 100e3;

// The stream of one rank, and how to open it a second time if needed (recorded_matches.hpp).
struct RankStream {
  stream::Source* source = nullptr;
  Open again;
  FlopsOfSite flops;
  SendReply send_reply;
};

class ReplayedRank {
 public:
  // All arguments must outlive this object.
  ReplayedRank(const RankStream& stream, Rank& rank, const ReplayOptions& options, const ClusterOptions& cluster);

  // Throws std::runtime_error if the stream is unsupported, truncated, or that of another rank.
  Task<> run();

  CallTimes& call_times() { return times_; }
  const AccessReplay& access_replay() const { return accesses_; }
  // Returns the data that a call site has received; nothing unless the options have first_reads.
  ReceivedData received_by(const CallTimes::CallKey& call) const { return first_reads_.received_by(call); }
  TimingSensitivity timing_sensitivity() const { return races_.timing_sensitivity(); }
  // Returns the names of the regions that began.
  const std::set<std::string>& started_regions() const { return regions_; }
  StreamDefinitions& definitions() { return definitions_; }

 private:
  // Returns whether time counts now: no regions were selected, or a selected region is open.
  bool is_timed() const { return options_.regions.empty() || open_regions_ > 0; }
  PerfCounters counters() const;
  void record_failed_poll();

  // Events that define a number are stored.
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
  Task<> handle_event(const stream::Completed& event) { return requests_.complete_requests(event.requests); }
  Task<> handle_event(const stream::Tested& event);
  Task<> handle_event(const stream::Probe& event);
  Task<> handle_event(const stream::Forget& event);
  Task<> handle_event(const stream::Collective& event);
  Task<> handle_event(const stream::Region& event);
  Task<> handle_event(const stream::Unsupported& event);
  Task<> handle_event(const stream::End& event);
  // The rank waits, and expects no reply: its requests complete on the host as soon as their messages have arrived.
  Task<> handle_event(const stream::WaitStarted& event) { return requests_.complete_requests(event.requests); }
  Task<> handle_event(const Query& event);
  // Events that only other readers of streams use.
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
  AccessReplay accesses_;
  StreamDefinitions definitions_;
  Requests requests_;
  RaceCounter races_;
  PollingDetector polling_;
  RecordedOutcomes recorded_;
  LiveOutcomes live_;
  OutcomeSource* outcomes_ = &recorded_;   // source of the outcome of the next call that tests requests or probes
  std::optional<stream::Outcome> probed_;  // the message that the next probe found
  CallTimes times_;
  CallTimes::CallKey call_;
  int depth_ = 0;  // nesting depth of MPI calls
  int open_regions_ = 0;
  std::set<std::string> regions_;
};

}  // namespace nearfield::sim::replay

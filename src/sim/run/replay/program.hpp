// The program of one simulated rank that replays a stream: accesses go to its node's memory, events become calls of the
// simulated MPI.
//
// Nondeterministic outcomes are replayed as recorded, or decided by the simulator if the program runs live
// (outcomes.hpp). TimingSensitivity counts them, and the configurations in which they would differ. The program might
// then have behaved differently; the stream has only what it did.
//
// MPI calls that create communicators and datatypes, MPI_Init and MPI_Finalize take no time. Buffered sends are copied
// to memory of the library and sent from there.
#pragma once

#include <set>
#include <string>

#include "sim/run/cluster.hpp"
#include "sim/run/replay/accesses.hpp"
#include "sim/run/replay/call_times.hpp"
#include "sim/run/replay/outcomes.hpp"

namespace nearfield::sim::replay {

struct Options {
  // The names of the regions whose accesses and times count; empty: the whole program. Accesses outside them are
  // skipped, so a region begins with the cache contents that the previous region and later messages left. Messages
  // outside them are simulated to keep ranks synchronised, but their time is not counted.
  std::vector<std::string> regions;
};

// A stream, and how to open it a second time if needed (recorded_matches.hpp).
struct Stream {
  stream::Source* source = nullptr;
  Open again;
  FlopsOfSite flops;
  SendReply send_reply;
};

class ReplayedRank {
 public:
  // All arguments must outlive it.
  ReplayedRank(const Stream& stream, Rank& rank, const Options& options, const ClusterOptions& cluster);

  // Throws std::runtime_error if the stream is unsupported, truncated, or that of another rank.
  Task<> run();

  CallTimes& times() { return times_; }
  const Accesses& accesses() const { return accesses_; }
  TimingSensitivity timing_sensitivity() const { return races_.timing_sensitivity(); }
  // Returns the names of the regions that began.
  const std::set<std::string>& regions() const { return regions_; }
  Definitions& definitions() { return definitions_; }

 private:
  // Returns whether the time counts.
  bool timed() const { return options_.regions.empty() || open_regions_ > 0; }
  PerfCounters counters() const;
  void record_failed_poll();

  // Definitions of numbers.
  template <class Event>
    requires requires(Definitions definitions, const Event& event) { definitions.add(event); }
  Task<> on(const Event& event) {
    definitions_.add(event);
    co_return;
  }
  Task<> on(const stream::RankInfo& event);
  Task<> on(const stream::Enter& event);
  Task<> on(const stream::Leave& event);
  Task<> on(const stream::Send& event);
  Task<> on(const stream::Receive& event);
  Task<> on(const stream::Outcome& event);
  Task<> on(const stream::Completed& event) { return requests_.finish_all(event.requests); }
  Task<> on(const stream::Tested& event);
  Task<> on(const stream::Probe& event);
  Task<> on(const stream::Forget& event);
  Task<> on(const stream::Collective& event);
  Task<> on(const stream::Region& event);
  Task<> on(const stream::Unsupported& event);
  Task<> on(const stream::End& event);
  // The rank waits without a reply: its requests complete on the host as soon as their messages have arrived.
  Task<> on(const stream::WaitStarted& event) { return requests_.finish_all(event.requests); }
  Task<> on(const Query& event);
  // Other readers use these events.
  Task<> on(const stream::Sites&) { co_return; }
  Task<> on(const stream::StaticAndStackRanges&) { co_return; }

  const Stream& stream_;
  Rank& rank_;
  const Options& options_;
  const bool has_counters_;
  AddressSpace space_;
  Accesses accesses_;
  Definitions definitions_;
  Requests requests_;
  RaceCounter races_;
  PollingDetector polling_;
  RecordedOutcomes recorded_;
  LiveOutcomes live_;
  Outcomes* outcomes_ = &recorded_;        // of the next call that tests requests or probes
  std::optional<stream::Outcome> probed_;  // the message that the next probe found
  CallTimes times_;
  CallTimes::Call call_;
  int depth_ = 0;  // of nested calls
  int open_regions_ = 0;
  std::set<std::string> regions_;
};

}  // namespace nearfield::sim::replay

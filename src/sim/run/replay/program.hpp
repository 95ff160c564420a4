// The program of one simulated rank that replays a stream: accesses go to its node's memory, events become calls of the
// simulated MPI.
//
// Nondeterministic outcomes are replayed as recorded. A receive from any source is forced to match the recorded
// message; Waitany and a successful Test wait for the recorded requests; a failed Test or Iprobe costs one poll.
// Further failed polls with hardly an access between them cost nothing, since their number depends on how long the
// observed run waited. TimingSensitivity counts these outcomes, and the configurations in which they would differ. The
// program might then have behaved differently; the stream has only what it did.
//
// A program that runs live gets the outcomes of the first policy at the first memory speed instead (live_queries.cpp),
// and so does its recorded stream, if it is simulated on the same machine.
//
// The stream has no arithmetic; it is known per code location of an access (Stream::flops). It overlaps with the issue
// of neighbouring accesses, but not with memory stalls. MPI calls that create communicators and datatypes, MPI_Init and
// MPI_Finalize take no time. Buffered sends are copied to memory of the library and sent from there.
#pragma once

#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <unordered_map>

#include "sim/mpi/collectives/on_group.hpp"
#include "sim/run/cluster.hpp"
#include "sim/run/replay/call_times.hpp"
#include "sim/run/replay/collectives.hpp"
#include "sim/run/replay/recorded_matches.hpp"
#include "trace/stream/live_reply.hpp"

namespace nearfield::sim::replay {

struct Options {
  // The names of the regions whose accesses and times count; empty: the whole program. Accesses outside them are
  // skipped, so a region begins with the cache contents that the previous region and later messages left. Messages
  // outside them are simulated to keep ranks synchronised, but their time is not counted.
  std::vector<std::string> regions;
};

// Counts a rank's calls whose outcome depends on timing.
struct TimingSensitivity {
  std::uint64_t from_any = 0;           // receives with MPI_ANY_SOURCE or MPI_ANY_TAG
  std::uint64_t ambiguous_matches = 0;  // of these: another message would have matched, too
  std::uint64_t polls = 0;              // Test, Testany, Iprobe ...
  std::uint64_t failed_polls = 0;       // of these: no request was complete
  std::uint64_t waits_for_any = 0;      // Waitany, Waitsome with more than one request
  RaceStatistics races;                 // of all these, except polling loops, which count as waits
};

// A code location in the program from which MPI is called.
struct Place {
  std::string object;  // path of the executable or library
  std::uint64_t offset = 0;
  std::vector<Place> callers;  // call sites of the enclosing functions, innermost first
};

// A stream, and how to open it a second time if needed (recorded_matches.hpp).
struct Stream {
  stream::Source* source = nullptr;
  Open again;
  // Returns the floating-point operations per access at this code location. Empty: none.
  std::function<float(std::uint32_t site)> flops;
  // Replies to the queries of a program that runs live (stream/live_reply.hpp). Empty: the stream was recorded.
  std::function<void(std::span<const std::int64_t> words)> send_reply;
};

class ReplayedRank {
 public:
  // All arguments must outlive it.
  ReplayedRank(const Stream& stream, Rank& rank, const Options& options, const ClusterOptions& cluster);

  // Throws std::runtime_error if the stream is unsupported, truncated, or that of another rank.
  Task<> run();

  CallTimes& times() { return times_; }
  std::uint64_t accesses() const { return accesses_; }
  std::uint64_t skipped_accesses() const { return skipped_; }
  // Returns the floating-point operations of the accesses.
  double flops() const { return all_flops_; }
  TimingSensitivity timing_sensitivity() const;
  // Returns the names of the regions that began.
  const std::set<std::string>& regions() const { return regions_; }
  // Returns the text that the stream defines for a number; empty if none.
  std::string text(stream::Number number) const;
  Place place(stream::Number call_site) const;

 private:
  struct Group {
    stream::Number context = 0;
    std::vector<int> world, peers;  // members' ranks, and the ranks that messages go to: members, or the remote group
    int me = 0;
    bool between_groups = false;
    std::vector<std::int64_t> sources, destinations;
    int collectives = 0;  // so far
  };
  // A nonblocking collective.
  struct NonblockingCollective {
    CollectiveArguments arguments;
    std::unique_ptr<GroupCommunicator> all;
    AsyncProgressTask task;
  };
  // The recorded result of a call that tests requests or waits for one of several. The result differs in configurations
  // in which a request that was not complete (`of_all`: all of them) is ready before `limit`.
  struct Choice {
    ConfigClock limit;
    bool of_all = false;
    std::size_t open = 0;  // requests that have not completed yet
    ConfigMask divergent = 0, late = 0;
    bool counts = true;
  };
  // A request of the stream: a message or a collective.
  struct Pending {
    Request message;
    std::unique_ptr<NonblockingCollective> collective;
    std::vector<std::shared_ptr<Choice>> choices;
  };
  struct BufferedSend {
    Request request;
    Address copy;
    std::uint64_t bytes;
  };

  Task<> accesses_to_next_event();
  Task<> finish(Pending request);
  Task<> finalize();
  Task<> boundary();
  bool is_polling() const;
  Task<> record_failed_poll(bool again);
  bool is_done(const Pending& request) const;
  std::vector<std::int64_t> indices_of_done(const stream::Ask& event);
  bool is_repeated_query(const stream::Ask& event);
  Task<> decide_requests(const stream::Ask& event);
  Task<> decide_message(const stream::Ask& event);
  void send_reply(stream::ReplyKind what, const std::vector<std::int64_t>& words) const;
  void compare(bool same, bool failed);
  void report_match(stream::Number request, int from, int tag);
  void score_alternatives(const stream::Tested& event, bool waited, const ConfigClock& since,
                          const std::vector<ConfigClock>& ready);
  void resolve_choice(Choice& choice, const ConfigClock& ready);
  void discard_failed_poll();
  Task<> send_buffered(const Pattern& to, const Buffer& data);
  Pending& pending(stream::Number request);
  Group& group(stream::Number communicator);
  Part part(const stream::Data& data) const;
  CollectiveArguments arguments_of(const stream::Collective& event, const Group& group) const;
  Pattern pattern(const Group& group, std::int64_t peer, std::int64_t tag) const;
  void add(const stream::Reference& access);
  Ps arithmetic(std::span<const stream::Reference> accesses);
  PerfCounters counters() const;
  bool timed() const { return options_.regions.empty() || open_regions_ > 0; }

  Task<> on(const stream::RankInfo& event);
  Task<> on(const stream::Text& event);
  Task<> on(const stream::Object& event);
  Task<> on(const stream::CallSite& event);
  Task<> on(const stream::Enter& event);
  Task<> on(const stream::Leave& event);
  Task<> on(const stream::Communicator& event);
  Task<> on(const stream::Layout& event);
  Task<> on(const stream::Send& event);
  Task<> on(const stream::Receive& event);
  Task<> on(const stream::Outcome& event);
  Task<> on(const stream::Completed& event);
  Task<> on(const stream::Tested& event);
  Task<> on(const stream::Probe& event);
  Task<> on(const stream::Forget& event);
  Task<> on(const stream::Collective& event);
  Task<> on(const stream::Region& event);
  Task<> on(const stream::Unsupported& event);
  Task<> on(const stream::End& event);
  Task<> on(const stream::Sites& event);
  Task<> on(const stream::WaitStarted& event);
  Task<> on(const stream::Ask& event);
  Task<> on(const stream::StaticAndStackRanges& event);

  stream::Source& stream_;
  std::function<float(std::uint32_t site)> flops_;
  std::function<void(std::span<const std::int64_t> words)> send_reply_;
  std::vector<float> flops_of_site_;  // of the sites so far
  double all_flops_ = 0;
  RecordedMatches recorded_matches_;
  Rank& rank_;
  Endpoint& endpoint_;
  const Options& options_;
  const ClusterOptions& cluster_;
  AddressSpace space_;
  CallTimes times_;
  CallTimes::Call call_;
  int depth_ = 0;  // of nested calls
  int open_regions_ = 0;
  std::set<std::string> regions_;
  bool ended_ = false;
  std::uint64_t accesses_ = 0, skipped_ = 0, batches_ = 0;
  TimingSensitivity timing_sensitivity_;
  std::vector<stream::Reference> batch_;
  std::vector<Reference> folded_;
  std::unordered_map<stream::Number, std::string> texts_;
  std::unordered_map<stream::Number, std::string> objects_;
  std::unordered_map<stream::Number, stream::CallSite> call_sites_;
  std::unordered_map<stream::Number, Group> groups_;
  std::deque<Datatype> datatypes_;  // never freed, since messages in flight may use a datatype whose number was reused
  std::unordered_map<stream::Number, const Datatype*> layouts_;
  std::optional<stream::Outcome> probed_;
  std::optional<std::uint64_t> last_failed_poll_;  // the number of accesses before it
  std::shared_ptr<Choice> failed_poll_;            // its result
  ConfigClock ready_;                              // when the last request to finish was ready
  bool result_of_query_ = false;                   // the next event is the reply to a query
  bool query_is_repeated_ = false;                 // which repeats a failed query
  ConfigClock query_start_;
  std::vector<stream::Number> decided_;       // the completed requests that the simulator chose
  bool failed_poll_diverged_ = false;         // the poll would have succeeded in the first configuration
  const Message* decided_message_ = nullptr;  // the message that the simulator chose
  std::vector<stream::Ask> failed_queries_;   // failed queries of the current polling loop
  std::unordered_map<stream::Number, stream::Number>
      notified_;     // communicators of receives whose matches are reported live
  Scratch scratch_;  // buffers of collectives
  std::vector<BufferedSend> buffered_;
  std::vector<Pending> forgotten_;
  std::vector<Pending> pending_;  // by number
};

}  // namespace nearfield::sim::replay

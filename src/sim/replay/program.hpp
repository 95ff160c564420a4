// The program of one simulated rank that replays a stream: accesses go to its node's memory, events become what the
// simulated MPI does for them.
//
// The outcomes of the observed run are imposed where MPI leaves them open. A receive from any source waits for the
// message that it got then; Waitany and a successful Test wait for what was done then; a Test or Iprobe that failed
// costs one look at what has come, and the program goes on. Looks that fail again, with hardly an access between them,
// cost nothing: how many they were says how long the observed run had to wait. Dependence says how often all that was,
// and on which clocks it would have gone another way. A program may have noticed, and then done something else; but a
// stream says only what it did do.
//
// A program that runs meanwhile gets the outcomes of the first policy at the first memory speed instead (asked.cpp), and
// so does its trace, if it is simulated on the same machine.
//
// Arithmetic is not in the stream, but known by the places of accesses (Stream::flops). It takes no time while the core
// issues the accesses around it, and does not go on while the core waits for memory. Of MPI's calls, those
// that set up communicators and datatypes, and MPI_Init and MPI_Finalize, take no time. Buffered sends are copied to
// memory of the library and sent from there.
#pragma once

#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <unordered_map>

#include "sim/cluster.hpp"
#include "sim/collectives/on_group.hpp"
#include "sim/replay/call_times.hpp"
#include "sim/replay/collectives.hpp"
#include "sim/replay/outcomes.hpp"
#include "stream/live_reply.hpp"

namespace nearfield::sim::replay {

struct Options {
  // The regions, by name, whose accesses and times count; none: all of the program. Outside them accesses are not made,
  // so that caches are at first as the last region and the messages since then left them. Messages are sent and received
  // in order to keep ranks together, but their time is in no sum.
  std::vector<std::string> regions;
};

// How often a rank did what could go another way if time ran otherwise.
struct Dependence {
  std::uint64_t from_any = 0;       // receives that do not say from whom, or with which tag
  std::uint64_t contested = 0;      // of these: another message was there that they would have taken
  std::uint64_t looks = 0;          // Test, Testany, Iprobe ...
  std::uint64_t failed_looks = 0;   // of these: nothing was done
  std::uint64_t waits_for_any = 0;  // Waitany, Waitsome of more than one request
  Tally tally;                      // of all these, but those of loops that only look, which are waits
};

// A place in the program from which MPI is called.
struct Place {
  std::string object;  // path of the executable or library
  std::uint64_t offset = 0;
  std::vector<Place> callers;  // where the function with the call was called, and so on
};

// A stream that is read once, and by a second source if that is needed (outcomes.hpp).
struct Stream {
  stream::Source* source = nullptr;
  Open again;
  // Returns the floating-point operations that an access of this site comes with. Empty: none.
  std::function<float(std::uint32_t site)> flops;
  // Tells a program that runs meanwhile what it asked (stream/live_reply.hpp). Empty: it has run before.
  std::function<void(std::span<const std::int64_t> words)> tell;
};

class ReplayedRank {
 public:
  // All must outlive it.
  ReplayedRank(const Stream& stream, Rank& rank, const Options& options, const ClusterOptions& cluster);

  // Throws std::runtime_error if the stream is refused, is cut, or is that of another rank.
  Task<> run();

  CallTimes& times() { return times_; }
  std::uint64_t accesses() const { return accesses_; }
  std::uint64_t skipped_accesses() const { return skipped_; }
  // Returns the floating-point operations that the accesses came with.
  double flops() const { return all_flops_; }
  Dependence dependence() const;
  // Returns the regions that began, by name.
  const std::set<std::string>& regions() const { return regions_; }
  // Returns the text that the stream gave a number; empty if it gave none.
  std::string text(stream::Number number) const;
  Place place(stream::Number call_site) const;

 private:
  struct Group {
    stream::Number context = 0;
    std::vector<int> world, peers;  // members, and those whom messages go to: members, or the remote group
    int me = 0;
    bool between_groups = false;
    std::vector<std::int64_t> sources, destinations;
    int collectives = 0;  // so far
  };
  // A nonblocking collective.
  struct Beside {
    CollectiveArguments arguments;
    std::unique_ptr<GroupCommunicator> all;
    Background background;
  };
  // An answer that the program got about several requests, or about one that may be done or not. The answer would have
  // been another one where a request that was not done (`of_all`: all of them) was ready before `limit`.
  struct Choice {
    Clock limit;
    bool of_all = false;
    std::size_t open = 0;  // that are still to be waited for
    OnClocks otherwise = 0, late = 0;
    bool counts = true;
  };
  // A request of the stream: a message or a collective.
  struct Pending {
    Request message;
    std::unique_ptr<Beside> collective;
    std::vector<std::shared_ptr<Choice>> choices;
  };
  struct BufferedSend {
    Request request;
    Address copy;
    std::uint64_t bytes;
  };

  Task<> accesses_to_next_event();
  Task<> finish(Pending its);
  Task<> finalize();
  Task<> boundary();
  bool is_polling() const;
  Task<> look_in_vain(bool again);
  bool is_done(const Pending& its) const;
  std::vector<std::int64_t> places_of_done(const stream::Ask& event);
  bool asked_before(const stream::Ask& event);
  Task<> decide_requests(const stream::Ask& event);
  Task<> decide_message(const stream::Ask& event);
  void tell(stream::ReplyKind what, const std::vector<std::int64_t>& words) const;
  void compare(bool same, bool in_vain);
  void tell_match(stream::Number request, int from, int tag);
  void weigh(const stream::Tested& event, bool waited, const Clock& since, const std::vector<Clock>& ready);
  void settle(Choice& choice, const Clock& ready);
  void forget_look_in_vain();
  Task<> send_buffered(const Pattern& to, const Buffer& data);
  Pending& pending(stream::Number request);
  Group& group(stream::Number communicator);
  Part part(const stream::Data& data) const;
  CollectiveArguments arguments_of(const stream::Collective& event, const Group& group) const;
  Pattern pattern(const Group& group, std::int64_t peer, std::int64_t tag) const;
  void add(const stream::Reference& access);
  Ps arithmetic(std::span<const stream::Reference> accesses);
  Seen seen() const;
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
  std::function<void(std::span<const std::int64_t> words)> tell_;
  std::vector<float> flops_of_site_;  // those that were asked for
  double all_flops_ = 0;
  Outcomes outcomes_;
  Rank& rank_;
  Endpoint& endpoint_;
  const Options& options_;
  const ClusterOptions& cluster_;
  AddressSpace space_;
  CallTimes times_;
  CallTimes::Call call_;
  int depth_ = 0;  // of calls
  int open_regions_ = 0;
  std::set<std::string> regions_;
  bool ended_ = false;
  std::uint64_t accesses_ = 0, skipped_ = 0, batches_ = 0;
  Dependence dependence_;
  std::vector<stream::Reference> batch_;
  std::vector<Reference> folded_;
  std::unordered_map<stream::Number, std::string> texts_;
  std::unordered_map<stream::Number, std::string> objects_;
  std::unordered_map<stream::Number, stream::CallSite> call_sites_;
  std::unordered_map<stream::Number, Group> groups_;
  std::deque<Datatype>
      datatypes_;  // all that there ever were, since messages may still use one whose number is another's
  std::unordered_map<stream::Number, const Datatype*> layouts_;
  std::optional<stream::Outcome> probed_;
  std::optional<std::uint64_t> looked_in_vain_;  // after so many accesses
  std::shared_ptr<Choice> in_vain_;              // the choice of that look
  Clock ready_;                                  // when the request was that was finished last
  bool asked_ = false;                           // what the program was told comes next
  bool asked_again_ = false;                     // and it had asked before
  Clock asked_since_;
  std::vector<stream::Number> decided_;       // the requests that are done
  bool other_in_vain_ = false;                // the program looked in vain, and would not have by the first clock
  const Message* decided_message_ = nullptr;  // or the message that is there
  std::vector<stream::Ask> in_vain_asked_;    // with hardly an access since
  std::unordered_map<stream::Number, stream::Number>
      told_;         // communicators of receives whose messages it is to be told
  Scratch scratch_;  // of collectives
  std::vector<BufferedSend> buffered_;
  std::vector<Pending> forgotten_;
  std::vector<Pending> pending_;  // by number
};

}  // namespace nearfield::sim::replay

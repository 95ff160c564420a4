#include "analysis/analysis.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <tuple>
#include <unordered_map>

#include "analysis/message_lines.hpp"
#include "analysis/message_pieces.hpp"

namespace nearfield::advise {
namespace {

using namespace stream;

// The datatypes and communicators that the events read so far have defined, by number.
struct StreamDefinitions {
  std::unordered_map<Number, Layout> layouts;
  std::unordered_map<Number, Communicator> communicators;

  void record_definition(const Event& event) {
    if (const auto* const layout = std::get_if<Layout>(&event)) layouts[layout->layout] = *layout;
    if (const auto* const one = std::get_if<Communicator>(&event)) communicators[one->communicator] = *one;
  }
  std::uint64_t bytes_of(const Data& data) const {
    const auto found = layouts.find(data.layout);
    return found == layouts.end() ? 0 : data.count * found->second.size_bytes;
  }
};

bool is_synchronising(CollectiveKind kind) {
  using enum CollectiveKind;
  constexpr std::array all{
      barrier, allreduce, allgather, allgatherv, alltoall, alltoallv, reduce_scatter, reduce_scatter_block, alltoallw};
  return std::ranges::find(all, kind) != all.end();
}

// Reads a stream to its end: passes batches of accesses to `on_accesses` and events to `on_event`. Adds the number of
// accesses to `passed`, and reports it to `progress`.
template <class OnAccesses, class OnEvent>
void read_stream(Source& source, const Progress& progress, std::uint64_t& passed, OnAccesses on_accesses,
                 OnEvent on_event) {
  std::vector<Reference> batch(4096);
  std::uint64_t reported = passed;
  const auto report = [&] {
    reported = passed;
    if (progress) progress(passed);
  };
  for (std::uint64_t events = 1;; ++events) {
    while (const std::size_t count = source.accesses(batch)) {
      on_accesses(std::span<const Reference>(batch).first(count));
      passed += count;
      if (passed - reported > 4'000'000) report();
    }
    const Event* const event = source.event();
    if (!event) break;
    on_event(*event);
    if (events % 65536 == 0) report();
  }
  report();
}

// The first pass: adds the cache lines of all sent and received messages to `lines`. Returns the number of accesses
// read.
std::uint64_t find_message_lines(Source& source, const Progress& progress, MessageLines& lines) {
  StreamDefinitions definitions;
  std::uint64_t passed = 0;
  const auto add = [&](std::int64_t peer, const Data& data) {
    const auto layout = definitions.layouts.find(data.layout);
    if (peer == proc_null || layout == definitions.layouts.end()) return;
    for_each_piece(data, layout->second, definitions.bytes_of(data), [&](std::uint64_t address, std::uint64_t bytes) {
      lines.add(address / line_bytes, (address + bytes - 1) / line_bytes);
    });
  };
  const auto on_event = [&](const Event& event) {
    definitions.record_definition(event);
    if (const auto* const send = std::get_if<Send>(&event)) add(send->peer, send->data);
    if (const auto* const receive = std::get_if<Receive>(&event)) add(receive->peer, receive->data);
  };
  read_stream(source, progress, passed, [](auto) {}, on_event);
  return passed;
}

// The second pass: computes the reuse distances of messages, and counts calls, bursts and collectives.
class Analysis {
 public:
  Analysis(MessageLines& lines, const AnalysisOptions& options)
      : options_(options), lines_(lines), reuse_distance_(options.sampled_lines) {}

  AnalysisResult analyse_stream(Source& source, const Progress& progress, std::uint64_t passed) {
    const std::uint64_t before = passed;
    read_stream(
        source, progress, passed, [this](std::span<const Reference> batch) { on_accesses(batch); },
        [this](const Event& event) {
          definitions_.record_definition(event);
          std::visit([this](const auto& one) { handle_event(one); }, event);
        });
    for (auto& [key, burst] : open_bursts_) close_burst(burst);
    count_unread_lines();
    for (const auto& [key, times] : ended_) result_.ended_in.push_back({key.first, key.second, times});
    for (const auto& [key, burst] : bursts_) result_.bursts.push_back(burst);
    for (const auto& [key, calls] : collectives_) result_.collectives.push_back(calls);
    for (auto& [context, calls] : synchronisations_) result_.synchronisations.push_back(std::move(calls));
    result_.accesses = passed - before;
    result_.sampled = reuse_distance_.sampling_rate();
    return std::move(result_);
  }

 private:
  struct PostedRequest {
    bool sends = false;
    std::size_t call = 0;
    Number communicator = 0;
    std::int64_t peer = 0;
    Data data;
    std::uint64_t bytes = 0;
    // Index in AnalysisResult::messages, set when the send has begun or the receive has completed.
    std::size_t messages = 0;
  };
  struct OpenBurst {
    std::size_t call = 0;
    std::uint64_t peer = 0, messages = 0, bytes = 0, phase = 0;
  };

  // ---- accesses of the program

  void on_accesses(std::span<const Reference> batch) {
    accessed_ = true;
    for (const Reference& one : batch) {
      const std::uint64_t last = (one.address + one.bytes - 1) / line_bytes;
      for (std::uint64_t line = one.address / line_bytes; line <= last; ++line) {
        if (line == last_line_ && !last_is_messages_) continue;
        last_line_ = line;
        MessageLine* const message_line = lines_.find(line);
        last_is_messages_ = message_line != nullptr;
        if (message_line && message_line->received != no_site) record_first_use(*message_line, one);
        reuse_distance_.record_access(line);
        if (!message_line) continue;
        message_line->touched = reuse_distance_.current_moment();
        if (!one.store) continue;
        message_line->written = message_line->touched;
        message_line->writer = one.site;
        if (message_line->sent == phase_ && line != last_sent_) ++phase_;
      }
    }
  }
  // Records the first access to a line since a receive stored data into it.
  void record_first_use(MessageLine& line, const Reference& access) {
    MessageGroup& messages = result_.messages[line.received];
    line.received = no_site;
    if (add_reuse_distance(messages.reach, reuse_distance_.lines_since(line.touched)) > 0)
      ++messages.sites[access.site];
    if (!access.store) ++phase_;
  }
  // Adds a reuse distance, given as a number of lines, to its class of the histogram. Returns the index of the class.
  std::size_t add_reuse_distance(ReuseHistogram& reach, double lines) {
    const double bytes = lines * line_bytes;
    std::size_t level = 0;
    while (level < options_.limits_bytes.size() && bytes > static_cast<double>(options_.limits_bytes[level])) ++level;
    ++reach.lines[level];
    reach.bytes[level] += bytes;
    return level;
  }
  void count_unread_lines() {
    for (MessageGroup& one : result_.messages) {
      if (one.sends) continue;
      std::uint64_t used = 0;
      for (const std::uint64_t lines : one.reach.lines) used += lines;
      one.untouched = one.lines - std::min(used, one.lines);
    }
  }

  // ---- messages and bursts

  const Layout* layout_of(const Data& data) const {
    const auto found = definitions_.layouts.find(data.layout);
    return found == definitions_.layouts.end() ? nullptr : &found->second;
  }
  std::size_t message_group_of(const PostedRequest& posted, const Layout& layout) {
    const Communicator& all = definitions_.communicators[posted.communicator];
    const MessageShape shape = message_shape(posted.data, layout, posted.bytes);
    const auto key = std::tuple(posted.call, posted.sends, all.context, posted.peer, posted.bytes, shape.piece_bytes,
                                shape.stride_bytes, is_allocated(shape.address));
    const auto [at, is_new] = group_numbers_.try_emplace(key, result_.messages.size());
    if (!is_new) return at->second;
    MessageGroup& messages = result_.messages.emplace_back();
    messages.call = posted.call;
    messages.sends = posted.sends;
    messages.context = all.context;
    const auto& peers = all.remote.empty() ? all.world : all.remote;
    messages.rank = std::ranges::find(all.world, result_.rank) - all.world.begin();
    messages.peer = posted.peer;
    messages.world_peer = static_cast<std::size_t>(posted.peer) < peers.size()
                              ? peers[static_cast<std::size_t>(posted.peer)]
                              : result_.ranks;
    messages.bytes = posted.bytes;
    messages.address = shape.address;
    messages.allocated = is_allocated(shape.address);
    messages.piece_bytes = shape.piece_bytes;
    messages.stride_bytes = shape.stride_bytes;
    messages.reach.lines.assign(options_.limits_bytes.size() + 1, 0);
    messages.reach.bytes.assign(options_.limits_bytes.size() + 1, 0);
    return at->second;
  }
  bool is_allocated(std::uint64_t address) const {
    if (address - static_and_stack_.stack < static_and_stack_.stack_bytes) return false;
    const auto& ranges = static_and_stack_.variables;
    for (std::size_t i = 0; i + 1 < ranges.size(); i += 2)
      if (address - ranges[i] < ranges[i + 1]) return false;
    return true;
  }
  void begin_send(PostedRequest& posted, const Layout& layout) {
    posted.messages = message_group_of(posted, layout);
    MessageGroup& messages = result_.messages[posted.messages];
    ++messages.messages;
    for_each_line(posted.data, layout, posted.bytes, [&](std::uint64_t number) {
      MessageLine* const line = lines_.find(number);
      if (line) {
        ++messages.lines;
        if (line->touched == MessageLine::never)
          ++messages.untouched;
        else if (add_reuse_distance(messages.reach, reuse_distance_.lines_since(line->touched)) > 0 &&
                 line->writer != no_site)
          ++messages.sites[line->writer];
      }
      reuse_distance_.record_access(number);
      if (!line) return;
      line->touched = reuse_distance_.current_moment();
      line->sent = phase_;
      last_sent_ = number;
    });
    last_line_ = no_line;
    join_burst(messages);
  }
  void end_receive(PostedRequest& posted, const Layout& layout) {
    posted.messages = message_group_of(posted, layout);
    MessageGroup& messages = result_.messages[posted.messages];
    ++messages.messages;
    for_each_line(posted.data, layout, posted.bytes, [&](std::uint64_t number) {
      reuse_distance_.record_access(number);
      MessageLine* const line = lines_.find(number);
      if (!line) return;
      ++messages.lines;
      line->touched = line->written = reuse_distance_.current_moment();
      line->writer = no_site;
      line->received = static_cast<std::uint32_t>(posted.messages);
    });
    last_line_ = no_line;
    if (!accessed_) ++phase_;  // without recorded accesses, the first use of the data is unknown
  }
  void end_request(Number request) {
    const auto found = posted_.find(request);
    if (found == posted_.end()) return;  // the request of a nonblocking collective
    PostedRequest& posted = found->second;
    if (const Layout* const layout = layout_of(posted.data); layout && posted.peer >= 0) {
      if (!posted.sends) end_receive(posted, *layout);
      ++ended_[{call_, posted.messages}];
    }
    posted_.erase(found);
  }
  void join_burst(const MessageGroup& send) {
    OpenBurst& open = open_bursts_[send.world_peer];
    if (open.call != send.call || open.phase != phase_ || send.bytes > options_.small_bytes) close_burst(open);
    if (send.bytes > options_.small_bytes) return;
    open.call = send.call;
    open.peer = send.world_peer;
    open.phase = phase_;
    ++open.messages;
    open.bytes += send.bytes;
  }
  void close_burst(OpenBurst& open) {
    if (open.messages > 1) {
      Burst& all = bursts_[{open.call, open.peer}];
      all.call = open.call;
      all.world_peer = open.peer;
      ++all.bursts;
      all.messages += open.messages;
      all.bytes += open.bytes;
    }
    open = {};
  }

  // ---- events of the stream

  void handle_event(const RankInfo& event) {
    result_.rank = event.rank;
    result_.ranks = event.ranks;
    result_.host = event.host;
    result_.delays = event.delays;
  }
  void handle_event(const Text& event) { texts_[event.text] = event.is; }
  void handle_event(const Object& event) {
    result_.objects.resize(std::max<std::size_t>(result_.objects.size(), event.object + 1));
    result_.objects[event.object] = event.path;
  }
  std::string path_of_object(Number object) const {
    return object < result_.objects.size() ? result_.objects[object] : "";
  }
  void handle_event(const CallSite& event) { call_sites_[event.call_site] = event; }
  void handle_event(const Enter& event) {
    result_.between_calls_ns += event.since_ns;
    result_.delayed_between_ns += event.delayed_ns;
    if (!accessed_ && event.since_ns > long_ns) ++phase_;
    const auto [at, is_new] = call_numbers_.try_emplace({event.name, event.call_site}, result_.calls.size());
    if (is_new) {
      const CallSite& site = call_sites_[event.call_site];
      MpiCall& call = result_.calls.emplace_back();
      call.name = texts_[event.name];
      call.frames.emplace_back(path_of_object(site.object), site.offset);
      for (std::size_t i = 0; i + 1 < site.callers.size(); i += 2)
        call.frames.emplace_back(path_of_object(site.callers[i]), site.callers[i + 1]);
    }
    call_ = at->second;
    ++result_.calls[call_].calls;
  }
  void handle_event(const Leave& event) {
    if (!result_.calls.empty()) {
      result_.calls[call_].time_ns += event.since_ns;
      result_.calls[call_].delayed_ns += event.delayed_ns;
    }
    if (!synchronised_) return;
    synchronised_->calls.push_back(call_);
    synchronised_->times_ns.push_back(waits_for_all_ ? event.since_ns : 0);
    synchronised_ = nullptr;
  }
  void handle_event(const Send& event) {
    post_request({true, call_, event.communicator, event.peer, event.data}, event.request);
  }
  void handle_event(const Receive& event) {
    post_request({false, call_, event.communicator, event.peer, event.data}, event.request);
  }
  void post_request(PostedRequest posted, Number request) {
    posted.bytes = definitions_.bytes_of(posted.data);
    const Layout* const layout = layout_of(posted.data);
    if (posted.sends && posted.peer >= 0 && layout) begin_send(posted, *layout);
    posted_[request] = posted;
  }
  void handle_event(const Outcome& event) {
    const auto found = posted_.find(event.request);
    if (found == posted_.end()) return;
    found->second.peer = event.peer;
    found->second.bytes = event.bytes;
  }
  void handle_event(const Completed& event) {
    for (const Number request : event.requests) end_request(request);
  }
  void handle_event(const Tested& event) {
    for (const Number request : event.done) end_request(request);
  }
  void handle_event(const Forget& event) { end_request(event.request); }
  void handle_event(const Collective& event) {
    ++phase_;
    const auto& parts = event.in_place || event.gives.empty() ? event.gets : event.gives;
    const std::uint64_t bytes = parts.size() == 1 ? definitions_.bytes_of(parts[0]) : 0;
    const std::uint64_t ranks = definitions_.communicators[event.communicator].world.size();
    CollectiveCalls& all = collectives_[{call_, static_cast<unsigned>(event.kind), bytes, ranks}];
    all = {call_, static_cast<unsigned>(event.kind), bytes, ranks, all.calls + 1};
    if (event.request == 0 && is_synchronising(event.kind)) begin_synchronisation(event);
  }
  // Begins the record of a synchronising collective. The Leave event of the call adds its time.
  void begin_synchronisation(const Collective& event) {
    const Communicator& all = definitions_.communicators[event.communicator];
    SynchronisingCalls& calls = synchronisations_[all.context];
    if (calls.calls.size() == SynchronisingCalls::max_calls) return;
    calls.context = all.context;
    calls.world = all.world;
    const auto has_bytes = [this](const Data& data) { return definitions_.bytes_of(data) > 0; };
    waits_for_all_ = std::ranges::all_of(event.gives, has_bytes) && std::ranges::all_of(event.gets, has_bytes);
    synchronised_ = &calls;
  }
  void handle_event(const Communicator& event) {
    if (event.sources.empty()) return;
    const auto rank = std::ranges::find(event.world, result_.rank) - event.world.begin();
    result_.topologies.push_back({event.context, event.world, rank, event.sources, event.destinations});
  }
  void handle_event(const StaticAndStackRanges& event) { static_and_stack_ = event; }
  void handle_event(const End&) { result_.ended = true; }
  void handle_event(const auto&) {}

  const AnalysisOptions& options_;
  MessageLines& lines_;
  ReuseDistance reuse_distance_;
  StreamDefinitions definitions_;
  StaticAndStackRanges static_and_stack_;
  AnalysisResult result_;
  static constexpr std::uint64_t no_line = ~0ULL;
  std::uint64_t last_line_ = no_line;
  bool last_is_messages_ = false;
  bool accessed_ = false;  // the stream contains accesses
  // The number of the current phase. The messages that a rank sends to one peer during a phase could be combined into
  // one message: during a phase, the rank accesses no received data, calls no collective, and does not write again to a
  // line that it has sent, except the line sent last, which may be a variable that is sent repeatedly. In a stream
  // without accesses, a phase ends with each receive, and when the rank computes for longer than `long_ns`.
  std::uint64_t phase_ = 0, last_sent_ = no_line;
  static constexpr std::uint64_t long_ns = 20'000;
  std::size_t call_ = 0;  // index of the current MPI call in AnalysisResult::calls
  std::unordered_map<Number, std::string> texts_;
  std::unordered_map<Number, CallSite> call_sites_;
  std::map<std::pair<Number, Number>, std::size_t> call_numbers_;
  std::map<std::tuple<std::size_t, bool, Number, std::int64_t, std::uint64_t, std::uint64_t, std::int64_t, bool>,
           std::size_t>
      group_numbers_;
  std::unordered_map<Number, PostedRequest> posted_;
  std::map<std::uint64_t, OpenBurst> open_bursts_;  // by the peer's rank in MPI_COMM_WORLD
  std::map<std::pair<std::size_t, std::size_t>, std::uint64_t> ended_;
  std::map<std::pair<std::size_t, std::uint64_t>, Burst> bursts_;
  std::map<std::tuple<std::size_t, unsigned, std::uint64_t, std::uint64_t>, CollectiveCalls> collectives_;
  std::map<std::uint64_t, SynchronisingCalls> synchronisations_;  // by context of the communicator
  SynchronisingCalls* synchronised_ = nullptr;  // where to record the current synchronising collective
  bool waits_for_all_ = false;
};

}  // namespace

AnalysisResult analyse(std::unique_ptr<stream::Source> first, stream::Source& second, const AnalysisOptions& options,
                       const Progress& progress) {
  MessageLines lines(options.max_pages);
  const std::uint64_t passed = find_message_lines(*first, progress, lines);
  first.reset();
  return Analysis(lines, options).analyse_stream(second, progress, passed);
}

}  // namespace nearfield::advise

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

bool is_synchronizing(CollectiveKind kind) {
  using enum CollectiveKind;
  constexpr std::array all{
      barrier, allreduce, allgather, allgatherv, alltoall, alltoallv, reduce_scatter, reduce_scatter_block, alltoallw};
  return std::ranges::find(all, kind) != all.end();
}

// Reads a stream to its end: passes batches of accesses to `on_accesses` and events to `on_event`. Adds the number of
// accesses to `num_accesses_read`, and reports it to `progress`.
template <class OnAccesses, class OnEvent>
void read_stream(StreamSource& source, const ProgressCallback& progress, std::uint64_t& num_accesses_read,
                 OnAccesses on_accesses, OnEvent on_event) {
  std::vector<Reference> batch(4096);
  std::uint64_t reported = num_accesses_read;
  const auto report = [&] {
    reported = num_accesses_read;
    if (progress) progress(num_accesses_read);
  };
  for (std::uint64_t events = 1;; ++events) {
    while (const std::size_t count = source.read_accesses(batch)) {
      on_accesses(std::span<const Reference>(batch).first(count));
      num_accesses_read += count;
      if (num_accesses_read - reported > 4'000'000) report();
    }
    const Event* const event = source.next_event();
    if (!event) break;
    on_event(*event);
    if (events % 65536 == 0) report();
  }
  report();
}

// The first pass: adds the cache lines of all sent and received messages to `lines`. Returns the number of accesses
// read.
std::uint64_t find_message_lines(StreamSource& source, const ProgressCallback& progress, MessageLines& lines) {
  StreamDefinitions definitions;
  std::uint64_t num_accesses_read = 0;
  const auto add = [&](std::int64_t peer, const Data& data) {
    const auto layout = definitions.layouts.find(data.layout);
    if (peer == proc_null || layout == definitions.layouts.end()) return;
    for_each_piece(data, layout->second, definitions.bytes_of(data), [&](std::uint64_t address, std::uint64_t bytes) {
      lines.add_lines(address / cache_line_bytes, (address + bytes - 1) / cache_line_bytes);
    });
  };
  const auto on_event = [&](const Event& event) {
    definitions.record_definition(event);
    if (const auto* const send = std::get_if<Send>(&event)) add(send->peer, send->data);
    if (const auto* const receive = std::get_if<Receive>(&event)) add(receive->peer, receive->data);
  };
  read_stream(source, progress, num_accesses_read, [](auto) {}, on_event);
  return num_accesses_read;
}

// The second pass: computes the reuse distances of messages, and counts calls, bursts and collectives.
class StreamAnalysis {
 public:
  StreamAnalysis(MessageLines& lines, const AnalysisOptions& options)
      : options_(options), lines_(lines), reuse_distance_(options.max_sampled_lines) {}

  StreamAnalysisResult run_second_pass(StreamSource& source, const ProgressCallback& progress,
                                       std::uint64_t num_accesses_read) {
    const std::uint64_t before = num_accesses_read;
    read_stream(
        source, progress, num_accesses_read, [this](std::span<const Reference> batch) { on_accesses(batch); },
        [this](const Event& event) {
          definitions_.record_definition(event);
          std::visit([this](const auto& one) { handle_event(one); }, event);
        });
    for (auto& [key, burst] : open_burst_by_peer_) close_burst(burst);
    count_unread_lines();
    for (const auto& [key, times] : completion_counts_) result_.completions.push_back({key.first, key.second, times});
    for (const auto& [key, burst] : bursts_) result_.bursts.push_back(burst);
    for (const auto& [key, calls] : collectives_) result_.collectives.push_back(calls);
    for (auto& [context, calls] : synchronizations_) result_.synchronizations.push_back(std::move(calls));
    result_.accesses = num_accesses_read - before;
    result_.sampled_share = reuse_distance_.sampling_rate();
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
    // Index in StreamAnalysisResult::messages, set when the send has begun or the receive has completed.
    std::size_t message_group = 0;
  };
  struct OpenBurst {
    std::size_t call = 0;
    std::uint64_t peer = 0, messages = 0, bytes = 0, phase = 0;
  };

  // ---- accesses of the program

  void on_accesses(std::span<const Reference> batch) {
    has_accesses_ = true;
    for (const Reference& one : batch) {
      const std::uint64_t last = (one.address + one.bytes - 1) / cache_line_bytes;
      for (std::uint64_t line = one.address / cache_line_bytes; line <= last; ++line) {
        if (line == last_line_ && !last_line_is_message_) continue;
        last_line_ = line;
        MessageLine* const message_line = lines_.find_line(line);
        last_line_is_message_ = message_line != nullptr;
        if (message_line && message_line->unread_receive != no_site) record_first_access(*message_line, one);
        reuse_distance_.record_access(line);
        if (!message_line) continue;
        message_line->last_access = reuse_distance_.current_moment();
        if (!one.is_store) continue;
        message_line->last_write = message_line->last_access;
        message_line->last_writer = one.site;
        if (message_line->sent_in_phase == current_phase_ && line != last_sent_line_) ++current_phase_;
      }
    }
  }
  // Records the first access to a line since a receive stored data into it.
  void record_first_access(MessageLine& line, const Reference& access) {
    MessageGroup& messages = result_.messages[line.unread_receive];
    line.unread_receive = no_site;
    if (add_reuse_distance(messages.reuse_distances, reuse_distance_.lines_since(line.last_access)) > 0)
      ++messages.sites[access.site];
    if (!access.is_store) ++current_phase_;
  }
  // Adds a reuse distance, given as a number of lines, to its class of the histogram. Returns the index of the class.
  std::size_t add_reuse_distance(ReuseHistogram& histogram, double lines) {
    const double bytes = lines * cache_line_bytes;
    std::size_t level = 0;
    while (level < options_.cache_capacities_bytes.size() &&
           bytes > static_cast<double>(options_.cache_capacities_bytes[level]))
      ++level;
    ++histogram.lines[level];
    histogram.bytes[level] += bytes;
    return level;
  }
  void count_unread_lines() {
    for (MessageGroup& one : result_.messages) {
      if (one.is_send) continue;
      std::uint64_t used = 0;
      for (const std::uint64_t lines : one.reuse_distances.lines) used += lines;
      one.num_untouched_lines = one.lines - std::min(used, one.lines);
    }
  }

  // ---- messages and bursts

  const Layout* layout_of(const Data& data) const {
    const auto found = definitions_.layouts.find(data.layout);
    return found == definitions_.layouts.end() ? nullptr : &found->second;
  }
  std::size_t find_or_add_message_group(const PostedRequest& posted, const Layout& layout) {
    const Communicator& all = definitions_.communicators[posted.communicator];
    const MessageShape shape = shape_of_message(posted.data, layout, posted.bytes);
    const auto key = std::tuple(posted.call, posted.sends, all.context, posted.peer, posted.bytes, shape.piece_bytes,
                                shape.stride_bytes, is_allocated(shape.address));
    const auto [at, is_new] = message_group_index_.try_emplace(key, result_.messages.size());
    if (!is_new) return at->second;
    MessageGroup& messages = result_.messages.emplace_back();
    messages.call_index = posted.call;
    messages.is_send = posted.sends;
    messages.context = all.context;
    const auto& peers = all.remote_world_ranks.empty() ? all.world_ranks : all.remote_world_ranks;
    messages.rank = std::ranges::find(all.world_ranks, result_.rank) - all.world_ranks.begin();
    messages.peer = posted.peer;
    messages.world_peer = static_cast<std::size_t>(posted.peer) < peers.size()
                              ? peers[static_cast<std::size_t>(posted.peer)]
                              : result_.ranks;
    messages.bytes = posted.bytes;
    messages.address = shape.address;
    messages.is_heap_allocated = is_allocated(shape.address);
    messages.piece_bytes = shape.piece_bytes;
    messages.stride_bytes = shape.stride_bytes;
    messages.reuse_distances.lines.assign(options_.cache_capacities_bytes.size() + 1, 0);
    messages.reuse_distances.bytes.assign(options_.cache_capacities_bytes.size() + 1, 0);
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
    posted.message_group = find_or_add_message_group(posted, layout);
    MessageGroup& messages = result_.messages[posted.message_group];
    ++messages.messages;
    for_each_line(posted.data, layout, posted.bytes, [&](std::uint64_t number) {
      MessageLine* const line = lines_.find_line(number);
      if (line) {
        ++messages.lines;
        if (line->last_access == MessageLine::never)
          ++messages.num_untouched_lines;
        else if (add_reuse_distance(messages.reuse_distances, reuse_distance_.lines_since(line->last_access)) > 0 &&
                 line->last_writer != no_site)
          ++messages.sites[line->last_writer];
      }
      reuse_distance_.record_access(number);
      if (!line) return;
      line->last_access = reuse_distance_.current_moment();
      line->sent_in_phase = current_phase_;
      last_sent_line_ = number;
    });
    last_line_ = no_line;
    join_burst(messages);
  }
  void end_receive(PostedRequest& posted, const Layout& layout) {
    posted.message_group = find_or_add_message_group(posted, layout);
    MessageGroup& messages = result_.messages[posted.message_group];
    ++messages.messages;
    for_each_line(posted.data, layout, posted.bytes, [&](std::uint64_t number) {
      reuse_distance_.record_access(number);
      MessageLine* const line = lines_.find_line(number);
      if (!line) return;
      ++messages.lines;
      line->last_access = line->last_write = reuse_distance_.current_moment();
      line->last_writer = no_site;
      line->unread_receive = static_cast<std::uint32_t>(posted.message_group);
    });
    last_line_ = no_line;
    if (!has_accesses_) ++current_phase_;  // without recorded accesses, the first use of the data is unknown
  }
  void end_request(Number request) {
    const auto found = posted_requests_.find(request);
    if (found == posted_requests_.end()) return;  // the request of a nonblocking collective
    PostedRequest& posted = found->second;
    if (const Layout* const layout = layout_of(posted.data); layout && posted.peer >= 0) {
      if (!posted.sends) end_receive(posted, *layout);
      ++completion_counts_[{current_call_, posted.message_group}];
    }
    posted_requests_.erase(found);
  }
  void join_burst(const MessageGroup& send) {
    OpenBurst& open = open_burst_by_peer_[send.world_peer];
    if (open.call != send.call_index || open.phase != current_phase_ || send.bytes > options_.max_small_message_bytes)
      close_burst(open);
    if (send.bytes > options_.max_small_message_bytes) return;
    open.call = send.call_index;
    open.peer = send.world_peer;
    open.phase = current_phase_;
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
    result_.reports_delays = event.reports_delays;
  }
  void handle_event(const Text& event) { text_by_number_[event.string_id] = event.content; }
  void handle_event(const Object& event) {
    result_.objects.resize(std::max<std::size_t>(result_.objects.size(), event.object + 1));
    result_.objects[event.object] = event.path;
  }
  std::string path_of_object(Number object) const {
    return object < result_.objects.size() ? result_.objects[object] : "";
  }
  void handle_event(const CallSite& event) { call_sites_[event.call_site] = event; }
  void handle_event(const Enter& event) {
    result_.time_between_calls_ns += event.since_ns;
    result_.delay_between_calls_ns += event.delayed_ns;
    if (!has_accesses_ && event.since_ns > min_compute_phase_ns) ++current_phase_;
    const auto [at, is_new] = call_index_by_site_.try_emplace({event.name, event.call_site}, result_.calls.size());
    if (is_new) {
      const CallSite& site = call_sites_[event.call_site];
      MpiCall& call = result_.calls.emplace_back();
      call.name = text_by_number_[event.name];
      call.frames.emplace_back(path_of_object(site.object), site.offset);
      for (std::size_t i = 0; i + 1 < site.callers.size(); i += 2)
        call.frames.emplace_back(path_of_object(site.callers[i]), site.callers[i + 1]);
    }
    current_call_ = at->second;
    ++result_.calls[current_call_].calls;
  }
  void handle_event(const Leave& event) {
    if (!result_.calls.empty()) {
      result_.calls[current_call_].time_ns += event.since_ns;
      result_.calls[current_call_].delayed_ns += event.delayed_ns;
    }
    if (!current_synchronization_) return;
    current_synchronization_->calls.push_back(current_call_);
    current_synchronization_->times_ns.push_back(waits_for_all_ ? event.since_ns : 0);
    current_synchronization_ = nullptr;
  }
  void handle_event(const Send& event) {
    post_request({true, current_call_, event.communicator, event.peer, event.data}, event.request);
  }
  void handle_event(const Receive& event) {
    post_request({false, current_call_, event.communicator, event.peer, event.data}, event.request);
  }
  void post_request(PostedRequest posted, Number request) {
    posted.bytes = definitions_.bytes_of(posted.data);
    const Layout* const layout = layout_of(posted.data);
    if (posted.sends && posted.peer >= 0 && layout) begin_send(posted, *layout);
    posted_requests_[request] = posted;
  }
  void handle_event(const Outcome& event) {
    const auto found = posted_requests_.find(event.request);
    if (found == posted_requests_.end()) return;
    found->second.peer = event.peer;
    found->second.bytes = event.bytes;
  }
  void handle_event(const RequestsCompleted& event) {
    for (const Number request : event.requests) end_request(request);
  }
  void handle_event(const RequestsTested& event) {
    for (const Number request : event.completed_requests) end_request(request);
  }
  void handle_event(const RequestFreed& event) { end_request(event.request); }
  void handle_event(const Collective& event) {
    ++current_phase_;
    const auto& parts = event.is_in_place || event.send_buffers.empty() ? event.receive_buffers : event.send_buffers;
    const std::uint64_t bytes = parts.size() == 1 ? definitions_.bytes_of(parts[0]) : 0;
    const std::uint64_t ranks = definitions_.communicators[event.communicator].world_ranks.size();
    CollectiveCalls& all = collectives_[{current_call_, static_cast<unsigned>(event.kind), bytes, ranks}];
    all = {current_call_, static_cast<unsigned>(event.kind), bytes, ranks, all.calls + 1};
    if (event.request == 0 && is_synchronizing(event.kind)) begin_synchronization(event);
  }
  // Begins the record of a synchronising collective. The Leave event of the call adds its time.
  void begin_synchronization(const Collective& event) {
    const Communicator& all = definitions_.communicators[event.communicator];
    SynchronizingCalls& calls = synchronizations_[all.context];
    if (calls.calls.size() == SynchronizingCalls::max_calls) return;
    calls.context = all.context;
    calls.world = all.world_ranks;
    const auto has_bytes = [this](const Data& data) { return definitions_.bytes_of(data) > 0; };
    waits_for_all_ =
        std::ranges::all_of(event.send_buffers, has_bytes) && std::ranges::all_of(event.receive_buffers, has_bytes);
    current_synchronization_ = &calls;
  }
  void handle_event(const Communicator& event) {
    if (event.sources.empty()) return;
    const auto rank = std::ranges::find(event.world_ranks, result_.rank) - event.world_ranks.begin();
    result_.topologies.push_back({event.context, event.world_ranks, rank, event.sources, event.destinations});
  }
  void handle_event(const StaticAndStackRanges& event) { static_and_stack_ = event; }
  void handle_event(const End&) { result_.has_end_event = true; }
  void handle_event(const auto&) {}

  const AnalysisOptions& options_;
  MessageLines& lines_;
  ReuseDistance reuse_distance_;
  StreamDefinitions definitions_;
  StaticAndStackRanges static_and_stack_;
  StreamAnalysisResult result_;
  static constexpr std::uint64_t no_line = ~0ULL;
  std::uint64_t last_line_ = no_line;
  bool last_line_is_message_ = false;
  bool has_accesses_ = false;  // the stream contains accesses
  // The number of the current phase. The messages that a rank sends to one peer during a phase could be combined into
  // one message: during a phase, the rank accesses no received data, calls no collective, and does not write again to a
  // line that it has sent, except the line sent last, which may be a variable that is sent repeatedly. In a stream
  // without accesses, a phase ends with each receive, and when the rank computes for longer than
  // `min_compute_phase_ns`.
  std::uint64_t current_phase_ = 0, last_sent_line_ = no_line;
  static constexpr std::uint64_t min_compute_phase_ns = 20'000;
  std::size_t current_call_ = 0;  // index of the current MPI call in StreamAnalysisResult::calls
  std::unordered_map<Number, std::string> text_by_number_;
  std::unordered_map<Number, CallSite> call_sites_;
  std::map<std::pair<Number, Number>, std::size_t> call_index_by_site_;
  std::map<std::tuple<std::size_t, bool, Number, std::int64_t, std::uint64_t, std::uint64_t, std::int64_t, bool>,
           std::size_t>
      message_group_index_;
  std::unordered_map<Number, PostedRequest> posted_requests_;
  std::map<std::uint64_t, OpenBurst> open_burst_by_peer_;  // by the peer's rank in MPI_COMM_WORLD
  std::map<std::pair<std::size_t, std::size_t>, std::uint64_t> completion_counts_;
  std::map<std::pair<std::size_t, std::uint64_t>, Burst> bursts_;
  std::map<std::tuple<std::size_t, unsigned, std::uint64_t, std::uint64_t>, CollectiveCalls> collectives_;
  std::map<std::uint64_t, SynchronizingCalls> synchronizations_;  // by context of the communicator
  SynchronizingCalls* current_synchronization_ = nullptr;  // where to record the current synchronising collective
  bool waits_for_all_ = false;
};

}  // namespace

StreamAnalysisResult analyze_stream(std::unique_ptr<stream::StreamSource> first_pass, stream::StreamSource& second_pass,
                                    const AnalysisOptions& options, const ProgressCallback& progress) {
  MessageLines lines(options.max_sampled_pages);
  const std::uint64_t num_accesses_read = find_message_lines(*first_pass, progress, lines);
  first_pass.reset();
  return StreamAnalysis(lines, options).run_second_pass(second_pass, progress, num_accesses_read);
}

}  // namespace nearfield::advise

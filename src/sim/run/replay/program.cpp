#include "sim/run/replay/program.hpp"

#include <algorithm>
#include <bit>
#include <stdexcept>

#include "machine/machine.hpp"

namespace nearfield::sim::replay {
namespace {

constexpr std::size_t at_a_time = 4096;          // accesses
constexpr std::size_t in_flight = 64;            // accesses whose issue overlaps with the arithmetic between them
constexpr std::uint64_t batches_to_notice = 64;  // between two calls of the progress callback

// Returns the size of a region: at most 1 GiB, and a node's memory holds 32 regions per rank. Large regions make it
// rare that a message spans two.
std::uint64_t region_bytes(int ranks_of_node) {
  constexpr std::uint64_t node = std::uint64_t{1} << 37, most = std::uint64_t{1} << 30;
  return std::min(most, node / 32 / std::bit_ceil(static_cast<unsigned>(ranks_of_node)));
}

std::runtime_error of_rank(const Rank& rank, const std::string& problem) {
  return std::runtime_error("rank " + std::to_string(rank.rank()) + ": " + problem);
}

}  // namespace

ReplayedRank::ReplayedRank(const Stream& stream, Rank& rank, const Options& options, const ClusterOptions& cluster)
    : stream_(*stream.source),
      flops_(stream.flops),
      send_reply_(stream.send_reply),
      recorded_matches_(stream.again),
      rank_(rank),
      endpoint_(rank.endpoint()),
      options_(options),
      cluster_(cluster),
      space_(region_bytes(cluster.ranks_per_node),
             [&rank, bytes = region_bytes(cluster.ranks_per_node)] { return rank.allocate(bytes); }),
      times_(static_cast<int>(cluster.policies.size())),
      batch_(at_a_time),
      scratch_([&rank](std::uint64_t bytes) { return rank.allocate(bytes); }) {}

Task<> ReplayedRank::run() {
  times_.restart(endpoint_.now(), counters());
  while (!ended_) {
    co_await accesses_to_next_event();
    const stream::Event* const event = stream_.event();
    if (!event) throw of_rank(rank_, "its stream ends before the program did");
    co_await std::visit([this](const auto& next) { return on(next); }, *event);
  }
}

Task<> ReplayedRank::accesses_to_next_event() {
  while (const std::size_t count = stream_.accesses(batch_)) {
    if (++batches_ % batches_to_notice == 0) endpoint_.cluster().run_progress_callback();
    if (!timed()) {
      skipped_ += count;
      continue;
    }
    accesses_ += count;
    folded_.clear();
    for (std::size_t i = 0; i < count; ++i) add(batch_[i]);
    co_await rank_.replay(folded_);
    if (const Ps longer = arithmetic(std::span(batch_).first(count)); longer > 0) rank_.compute(longer);
  }
}

// Returns the time by which the arithmetic of these accesses exceeds their issue time.
Ps ReplayedRank::arithmetic(std::span<const stream::Reference> accesses) {
  if (!flops_) return 0;
  const Core& core = rank_.core();
  double cycles = 0;
  while (!accesses.empty()) {
    const auto some = accesses.first(std::min(in_flight, accesses.size()));
    double flops = 0;
    for (const auto& access : some) {
      while (flops_of_site_.size() <= access.site)
        flops_of_site_.push_back(flops_(static_cast<std::uint32_t>(flops_of_site_.size())));
      flops += flops_of_site_[access.site];
    }
    all_flops_ += flops;
    if (core.flops_per_cycle > 0)
      cycles += std::max(0.0, flops / core.flops_per_cycle - static_cast<double>(some.size()) * core.cycles_per_access);
    accesses = accesses.subspan(some.size());
  }
  return cycles / core.clock_ghz * 1e3;
}

void ReplayedRank::add(const stream::Reference& access) {
  const Access kind = access.store ? Access::store : Access::load;
  std::uint64_t address = access.address;
  std::uint32_t bytes = access.bytes;
  while (bytes > space_.left_in_region(address)) [[unlikely]] {
    const auto part = static_cast<std::uint32_t>(space_.left_in_region(address));
    folded_.push_back({space_.fold(address), part, kind});
    address += part;
    bytes -= part;
  }
  folded_.push_back({space_.fold(address), bytes, kind});
}

PerfCounters ReplayedRank::counters() const {
  const bool counted = cluster_.count_sides && cluster_.memory_effects;
  return counted ? endpoint_.node().counters_of(endpoint_.core()) : PerfCounters();
}

TimingSensitivity ReplayedRank::timing_sensitivity() const {
  TimingSensitivity all = timing_sensitivity_;
  all.ambiguous_matches = endpoint_.ambiguous_matches();
  all.races = endpoint_.races();
  return all;
}

std::string ReplayedRank::text(stream::Number number) const {
  const auto found = texts_.find(number);
  return found == texts_.end() ? "" : found->second;
}

Place ReplayedRank::place(stream::Number call_site) const {
  const auto site = call_sites_.find(call_site);
  if (site == call_sites_.end()) return {};
  const auto place = [this](stream::Number object, std::uint64_t offset) {
    const auto found = objects_.find(object);
    return Place{found == objects_.end() ? "" : found->second, offset, {}};
  };
  Place result = place(site->second.object, site->second.offset);
  const auto& callers = site->second.callers;
  for (std::size_t i = 0; i + 1 < callers.size(); i += 2) result.callers.push_back(place(callers[i], callers[i + 1]));
  return result;
}

// ---- definitions in the stream

Task<> ReplayedRank::on(const stream::RankInfo& event) {
  const auto number = [](stream::Number rank, stream::Number ranks) {
    return std::to_string(rank) + " of " + std::to_string(ranks);
  };
  const std::string expected =
      number(static_cast<stream::Number>(rank_.rank()), static_cast<stream::Number>(rank_.size()));
  const std::string found = number(event.rank, event.ranks);
  if (found != expected) throw of_rank(rank_, "its stream is that of rank " + found + ", not of rank " + expected);
  endpoint_.races().decided = event.is_live;
  if (send_reply_)
    endpoint_.on_match([this](std::uint64_t notify_id, int from, int tag) { report_match(notify_id, from, tag); });
  co_return;
}

Task<> ReplayedRank::on(const stream::Text& event) {
  texts_[event.text] = event.is;
  co_return;
}
Task<> ReplayedRank::on(const stream::Object& event) {
  objects_[event.object] = event.path;
  co_return;
}
Task<> ReplayedRank::on(const stream::CallSite& event) {
  call_sites_[event.call_site] = event;
  co_return;
}

Task<> ReplayedRank::on(const stream::Layout& event) {
  layouts_[event.layout] = &datatypes_.emplace_back(event, space_);
  co_return;
}

Task<> ReplayedRank::on(const stream::Communicator& event) {
  Group& group = groups_[event.communicator];
  if (group.context != event.context) group.collectives = 0;
  group.context = event.context;
  group.world.assign(event.world.begin(), event.world.end());
  group.between_groups = !event.remote.empty();
  const auto& peers = group.between_groups ? event.remote : event.world;
  group.peers.assign(peers.begin(), peers.end());
  group.me = static_cast<int>(std::ranges::find(group.world, rank_.rank()) - group.world.begin());
  group.sources = event.sources;
  group.destinations = event.destinations;
  co_return;
}

ReplayedRank::Group& ReplayedRank::group(stream::Number communicator) {
  const auto found = groups_.find(communicator);
  if (found == groups_.end()) throw of_rank(rank_, "its stream uses a communicator that it does not describe");
  return found->second;
}

Part ReplayedRank::part(const stream::Data& data) const {
  const auto found = layouts_.find(data.layout);
  if (found == layouts_.end()) throw of_rank(rank_, "its stream uses a datatype that it does not describe");
  return {found->second, data.address, data.count};
}

// Messages of a communicator have an even context, those of its collectives the odd one after it.
Pattern ReplayedRank::pattern(const Group& group, std::int64_t peer, std::int64_t tag) const {
  Pattern result{any_rank, tag == stream::any ? any_tag : static_cast<int>(tag), 2 * group.context};
  if (peer == stream::any) return result;
  if (peer < 0 || peer >= static_cast<std::int64_t>(group.peers.size()))
    throw of_rank(rank_, "its stream names a rank that its communicator does not have: " + std::to_string(peer));
  result.peer = group.peers[static_cast<std::size_t>(peer)];
  return result;
}

ReplayedRank::Pending& ReplayedRank::pending(stream::Number request) {
  if (pending_.size() <= request) pending_.resize(request + 1);
  return pending_[request];
}

// ---- calls and regions

// Runs the queued calls, so that the clock is current.
Task<> ReplayedRank::boundary() { return endpoint_.flush_calls(); }

Task<> ReplayedRank::on(const stream::Enter& event) {
  if (depth_++ > 0) co_return;
  call_ = {event.name, event.call_site};
  endpoint_.in_call(&texts_[event.name]);
  co_await boundary();
  if (timed()) times_.computed(endpoint_.now(), counters());
}

Task<> ReplayedRank::on(const stream::Leave&) {
  if (--depth_ > 0) co_return;
  co_await boundary();
  endpoint_.in_call(nullptr);
  if (timed()) times_.called(call_, endpoint_.now(), counters());
}

Task<> ReplayedRank::on(const stream::Region& event) {
  if (event.level > 0) regions_.insert(text(event.name));
  if (std::ranges::find(options_.regions, text(event.name)) == options_.regions.end()) co_return;
  const bool was_timed = timed();
  open_regions_ = std::max(0, open_regions_ + (event.level > 0 ? 1 : -1));
  if (timed() == was_timed) co_return;
  co_await boundary();
  if (timed())
    times_.restart(endpoint_.now(), counters());
  else
    times_.computed(endpoint_.now(), counters());
}

Task<> ReplayedRank::on(const stream::Unsupported& event) {
  throw of_rank(rank_, "the program uses " + text(event.what) + ", which cannot be simulated");
  co_return;
}

Task<> ReplayedRank::on(const stream::End&) {
  co_await finalize();
  if (timed() && depth_ == 0) times_.computed(endpoint_.now(), counters());
  ended_ = true;
}

// Other readers use these events.
Task<> ReplayedRank::on(const stream::Sites&) { co_return; }
Task<> ReplayedRank::on(const stream::StaticAndStackRanges&) { co_return; }

// Completes sends and collectives, as MPI_Finalize does, since other ranks may depend on them. Receives that the
// program did not complete are left.
Task<> ReplayedRank::finalize() {
  co_await boundary();
  for (const BufferedSend& send : buffered_) co_await rank_.wait(send.request);
  for (Pending& request : pending_) forgotten_.push_back(std::move(request));
  for (Pending& request : forgotten_) {
    const RequestState* const message = request.message.state;
    if (request.collective || (message && message->kind == RequestState::Kind::send))
      co_await finish(std::move(request));
  }
}

// ---- messages

Task<> ReplayedRank::on(const stream::Send& event) {
  failed_queries_.clear();
  pending(event.request) = {};
  if (event.peer == stream::proc_null) co_return;
  const Pattern to = pattern(group(event.communicator), event.peer, event.tag);
  const Buffer data = part(event.data).buffer();
  if (event.mode == stream::Mode::buffered)
    co_await send_buffered(to, data);
  else
    pending(event.request).message = endpoint_.send(to, data, event.mode == stream::Mode::synchronous);
}

Task<> ReplayedRank::send_buffered(const Pattern& to, const Buffer& data) {
  for (BufferedSend& send : buffered_) {
    if (!send.request.state->done) continue;
    co_await rank_.wait(std::exchange(send.request, {}));
    if (send.bytes > 0) scratch_.release(send.copy, send.bytes);
  }
  std::erase_if(buffered_, [](const BufferedSend& send) { return !send.request.state; });
  const Buffer copy(data.bytes() > 0 ? scratch_.acquire(data.bytes()) : 0, data.bytes());
  co_await rank_.copy(copy, data);
  buffered_.push_back({endpoint_.send(to, copy), copy.address, copy.bytes()});
}

Task<> ReplayedRank::on(const stream::Receive& event) {
  failed_queries_.clear();
  pending(event.request) = {};
  if (event.peer == stream::proc_null) co_return;
  const Group& from = group(event.communicator);
  const Pattern allowed = pattern(from, event.peer, event.tag);
  const Buffer buffer = part(event.data).buffer();
  const stream::Number notify_id = event.notify_on_match && send_reply_ ? event.request : 0;
  if (notify_id) notified_[notify_id] = event.communicator;
  const bool any = from_any(event);
  if (any) ++timing_sensitivity_.from_any;
  if (!any || notify_id) {
    const auto race_pattern = any ? std::optional(allowed) : std::nullopt;
    pending(event.request).message = endpoint_.receive(allowed, buffer, race_pattern, notify_id);
    co_return;
  }
  const auto outcome = recorded_matches_.next();
  if (!outcome) co_return;  // it never matched
  pending(event.request).message = endpoint_.receive(pattern(from, outcome->peer, outcome->tag), buffer, allowed);
}

Task<> ReplayedRank::on(const stream::Outcome& event) {
  if (event.request == 0) probed_ = event;
  co_return;
}

Task<> ReplayedRank::finish(Pending request) {
  const bool is_message = request.message.state;
  if (request.collective)
    co_await endpoint_.wait(request.collective->task);
  else
    co_await rank_.wait(request.message);
  ready_ = is_message ? endpoint_.ready() : endpoint_.now();
  for (const auto& choice : request.choices) resolve_choice(*choice, ready_);
}

Task<> ReplayedRank::on(const stream::Completed& event) {
  for (const stream::Number request : event.requests) co_await finish(std::exchange(pending(request), {}));
}

Task<> ReplayedRank::on(const stream::Forget& event) {
  forgotten_.push_back(std::exchange(pending(event.request), {}));
  co_return;
}

// ---- collectives

CollectiveArguments ReplayedRank::arguments_of(const stream::Collective& event, const Group& group) const {
  CollectiveArguments arguments{event.kind, static_cast<int>(event.root), event.in_place, {}, {}, {}, {}};
  for (const auto& data : event.gives) arguments.gives.push_back(part(data));
  for (const auto& data : event.gets) arguments.gets.push_back(part(data));
  arguments.sources.assign(group.sources.begin(), group.sources.end());
  arguments.destinations.assign(group.destinations.begin(), group.destinations.end());
  return arguments;
}

Task<> ReplayedRank::on(const stream::Collective& event) {
  failed_queries_.clear();
  Group& group = this->group(event.communicator);
  if (group.between_groups) throw of_rank(rank_, "collectives of intercommunicators cannot be simulated");
  const CollectiveArguments arguments = arguments_of(event, group);
  const Pattern to{0, group.collectives++ & 0x3fffffff, 2 * group.context + 1};
  if (event.request == 0) {
    GroupCommunicator all(rank_, group.world, group.me, to, scratch_, nullptr);
    co_await run_collective(all, arguments);
    co_return;
  }
  pending(event.request) = {{}, std::make_unique<NonblockingCollective>()};
  NonblockingCollective& nonblocking = *pending(event.request).collective;
  nonblocking.arguments = arguments;
  nonblocking.all = std::make_unique<GroupCommunicator>(rank_, group.world, group.me, to, scratch_, &nonblocking.task);
  nonblocking.task.work = run_collective(*nonblocking.all, nonblocking.arguments);
  co_await endpoint_.begin(nonblocking.task);
}

}  // namespace nearfield::sim::replay

#include "sim/run/replay/program.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>
#include <stdexcept>

namespace nearfield::sim::replay {
namespace {

// Returns the size of a region of the process's address space (address_space.hpp): at most 1 GiB, and small enough that
// a node's memory holds 32 regions per rank. Large regions make it rare that a message spans two of them.
std::uint64_t address_region_bytes(int ranks_of_node) {
  constexpr std::uint64_t node = std::uint64_t{1} << 37, max_bytes = std::uint64_t{1} << 30;
  return std::min(max_bytes, node / 32 / std::bit_ceil(static_cast<unsigned>(ranks_of_node)));
}

std::uint64_t line_bytes_of(const Machine& machine) {
  return machine.caches.empty() ? 64 : static_cast<std::uint64_t>(machine.caches.front().line_bytes);
}

// Returns a random time in whole ps, below max_start_delay, that is the same on every host.
Ps start_delay(std::uint64_t seed, int rank) {
  std::seed_seq sequence{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32),
                         static_cast<std::uint32_t>(rank)};
  return std::floor(static_cast<double>(std::mt19937(sequence)()) * 0x1p-32 * max_start_delay);
}

}  // namespace

ReplayedRank::ReplayedRank(const RankStream& stream, Rank& rank, const ReplayOptions& options,
                           const ClusterOptions& cluster)
    : stream_(stream),
      rank_(rank),
      options_(options),
      has_counters_(cluster.needs_core_counters && cluster.has_memory_effects),
      space_(address_region_bytes(cluster.ranks_per_node),
             [&rank, bytes = address_region_bytes(cluster.ranks_per_node)] { return rank.allocate(bytes); }),
      first_reads_(line_bytes_of(rank.endpoint().cluster().machine)),
      access_replay_(*stream.source, stream.flops, rank, space_, options.first_reads ? &first_reads_ : nullptr),
      definitions_(rank.rank(), space_),
      requests_(rank, options.first_reads ? &first_reads_ : nullptr),
      race_counter_(rank.endpoint(), requests_),
      recorded_outcomes_({rank.endpoint(), definitions_, requests_, race_counter_, polling_detector_},
                         stream.open_again),
      live_outcomes_({rank.endpoint(), definitions_, requests_, race_counter_, polling_detector_}, stream.send_reply),
      call_times_(static_cast<int>(cluster.placement_policy_names.size()), cluster.scheduled_policy) {}

Task<> ReplayedRank::run() {
  if (options_.start_seed) rank_.compute(start_delay(*options_.start_seed, rank_.rank()));
  call_times_.restart_interval(rank_.now(), counters());
  const stream::Event* event = nullptr;
  do {
    co_await access_replay_.replay_to_event(is_timed(), polling_detector_);
    event = stream_.source->next_event();
    if (!event) throw rank_error(rank_.rank(), "its stream ends before the program did");
    co_await std::visit([this](const auto& next) { return handle_event(next); }, *event);
  } while (!std::holds_alternative<stream::End>(*event));
}

PerfCounters ReplayedRank::counters() const {
  Endpoint& endpoint = rank_.endpoint();
  return has_counters_ ? endpoint.node().counters_of(endpoint.core()) : PerfCounters();
}

Task<> ReplayedRank::handle_event(const stream::RankInfo& event) {
  const auto number = [](stream::Number rank, stream::Number ranks) {
    return std::to_string(rank) + " of " + std::to_string(ranks);
  };
  const std::string expected =
      number(static_cast<stream::Number>(rank_.rank()), static_cast<stream::Number>(rank_.size()));
  const std::string found = number(event.rank, event.ranks);
  if (found != expected)
    throw rank_error(rank_.rank(), "its stream is that of rank " + found + ", not of rank " + expected);
  rank_.endpoint().race_statistics().is_decided_by_first_config = event.is_live;
  co_return;
}

// ---- calls and regions. Queued calls are run first, so that the clock is current.

Task<> ReplayedRank::handle_event(const stream::Enter& event) {
  if (call_depth_++ > 0) co_return;
  call_ = {event.name, event.call_site};
  rank_.endpoint().set_current_call(&definitions_.text_of(event.name));
  co_await rank_.endpoint().flush_calls();
  if (is_timed()) call_times_.add_compute_time(rank_.now(), counters());
}

Task<> ReplayedRank::handle_event(const stream::Leave&) {
  if (--call_depth_ > 0) co_return;
  co_await rank_.endpoint().flush_calls();
  rank_.endpoint().set_current_call(nullptr);
  if (is_timed()) call_times_.add_call_time(call_, rank_.now(), counters());
}

Task<> ReplayedRank::handle_event(const stream::Region& event) {
  const std::string& name = definitions_.text_of(event.name);
  if (event.level > 0) started_regions_.insert(name);
  if (std::ranges::find(options_.regions, name) == options_.regions.end()) co_return;
  const bool was_timed = is_timed();
  open_regions_ = std::max(0, open_regions_ + (event.level > 0 ? 1 : -1));
  if (is_timed() == was_timed) co_return;
  co_await rank_.endpoint().flush_calls();
  if (is_timed())
    call_times_.restart_interval(rank_.now(), counters());
  else
    call_times_.add_compute_time(rank_.now(), counters());
}

Task<> ReplayedRank::handle_event(const stream::Unsupported& event) {
  throw rank_error(rank_.rank(),
                   "the program uses " + definitions_.text_of(event.feature) + ", which cannot be simulated");
  co_return;
}

Task<> ReplayedRank::handle_event(const stream::End&) {
  co_await rank_.endpoint().flush_calls();
  co_await requests_.finalize();
  if (is_timed() && call_depth_ == 0) call_times_.add_compute_time(rank_.now(), counters());
}

// ---- messages

Task<> ReplayedRank::handle_event(const stream::Send& event) {
  polling_detector_.end_polling_loop();
  requests_.add_message(event.request, {});
  if (event.peer == stream::proc_null) co_return;
  const Pattern to = definitions_.message_pattern(event.communicator, event.peer, event.tag);
  const Buffer data = definitions_.buffer_argument(event.data).buffer();
  if (options_.first_reads) first_reads_.record_read(data, rank_.endpoint().ordering_clock());
  if (event.mode == stream::SendMode::buffered)
    co_await requests_.send_buffered(to, data);
  else
    requests_.add_message(event.request, rank_.endpoint().send(to, data, event.mode == stream::SendMode::synchronous));
}

Task<> ReplayedRank::handle_event(const stream::Receive& event) {
  polling_detector_.end_polling_loop();
  requests_.add_message(event.request, {});
  if (event.peer == stream::proc_null) co_return;
  const Pattern program_pattern = definitions_.message_pattern(event.communicator, event.peer, event.tag);
  const Buffer buffer = definitions_.buffer_argument(event.data).buffer();
  if (has_wildcard(event)) race_counter_.count_wildcard_receive();
  OutcomeSource& outcomes =
      event.notify_on_match && stream_.send_reply ? static_cast<OutcomeSource&>(live_outcomes_) : recorded_outcomes_;
  requests_.add_receive(event.request, outcomes.post_receive(event, program_pattern, buffer), call_, buffer);
}

Task<> ReplayedRank::handle_event(const stream::Outcome& event) {
  if (event.request == 0) probed_message_ = event;
  co_return;
}

Task<> ReplayedRank::handle_event(const Query& event) {
  if (event.kind != stream::QueryKind::simulated_time) next_outcome_source_ = &live_outcomes_;
  return live_outcomes_.query(event);
}

void ReplayedRank::record_failed_poll() {
  race_counter_.count_failed_poll();
  polling_detector_.record_failed_poll();
}

Task<> ReplayedRank::handle_event(const stream::RequestsTested& event) {
  const CallStart start = co_await std::exchange(next_outcome_source_, &recorded_outcomes_)->begin_test(event);
  if (!event.is_blocking) race_counter_.count_poll();
  if (!event.is_blocking && event.completed_requests.empty()) record_failed_poll();
  const bool has_choice = event.requests.size() > 1;
  if (event.is_blocking && has_choice) race_counter_.count_wait_for_any();
  std::vector<ConfigClock> ready_times;
  for (const stream::Number request : event.completed_requests)
    ready_times.push_back(co_await requests_.complete_request(request));
  const bool waited = event.is_blocking || start.is_polling;
  if (waited ? has_choice && !event.completed_requests.empty() : !event.requests.empty())
    race_counter_.count_alternatives(event, definitions_.text_of(call_.name), waited, *start.begin, ready_times);
}

Task<> ReplayedRank::handle_event(const stream::Probe& event) {
  const auto outcome = std::exchange(probed_message_, {});
  OutcomeSource& outcomes = *std::exchange(next_outcome_source_, &recorded_outcomes_);
  if (!event.is_blocking) race_counter_.count_poll();
  if (event.peer == stream::proc_null) co_return;
  const Pattern program_pattern = definitions_.message_pattern(event.communicator, event.peer, event.tag);
  const auto& recorded = outcome ? *outcome : stream::Outcome{0, event.peer, event.tag, 0};
  const Pattern message = definitions_.message_pattern(event.communicator, recorded.peer, recorded.tag);
  const CallStart start = co_await outcomes.begin_probe(event, message);
  if (!event.is_blocking && !event.has_message) {
    record_failed_poll();
    if (!start.is_polling) rank_.endpoint().record_unmatched_probe(program_pattern);
    co_return;
  }
  const bool has_any = event.peer == stream::any_source_or_tag || event.tag == stream::any_source_or_tag;
  if (has_any) race_counter_.count_wildcard_receive();
  const bool waited = event.is_blocking || start.is_polling;
  const std::optional<Pattern> race_pattern = has_any || !waited ? std::optional(program_pattern) : std::nullopt;
  co_await rank_.endpoint().probe(message, race_pattern, waited, start.begin);
}

Task<> ReplayedRank::handle_event(const stream::RequestFreed& event) {
  requests_.forget_request(event.request);
  co_return;
}

Task<> ReplayedRank::handle_event(const stream::Collective& event) {
  polling_detector_.end_polling_loop();
  return requests_.run_or_begin_collective(event.request, definitions_.communicator_group(event.communicator),
                                           definitions_.collective_arguments(event), call_);
}

}  // namespace nearfield::sim::replay

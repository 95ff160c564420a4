// Replies to the queries of a program that runs live (ReplayedRank): the first policy at the first memory speed decides
// the outcomes. A recorded live stream contains the queries, too, and simulates them in the same time; the recorded
// results that follow them are replayed (test_and_probe.cpp), and are the same if the machine is the same.
//
// If a failed Test or Iprobe is repeated within 16 memory accesses, the reply waits for the rank's next event. A
// polling loop then costs one query per event.
#include <algorithm>
#include <cmath>

#include "sim/run/replay/program.hpp"

namespace nearfield::sim::replay {
namespace {

constexpr std::uint64_t max_accesses_between_queries = 16;  // between two queries of a polling loop

}  // namespace

void ReplayedRank::send_reply(stream::ReplyKind what, const std::vector<std::int64_t>& words) const {
  if (!send_reply_) return;
  std::vector<std::int64_t> all{static_cast<std::int64_t>(what), static_cast<std::int64_t>(words.size())};
  all.insert(all.end(), words.begin(), words.end());
  send_reply_(all);
}

void ReplayedRank::report_match(stream::Number request, int from, int tag) {
  const auto found = notified_.find(request);
  const auto& peers = group(found->second).peers;
  const auto peer = std::ranges::find(peers, from) - peers.begin();
  notified_.erase(found);
  send_reply(stream::ReplyKind::matched, {static_cast<std::int64_t>(request), peer, tag});
}

// The rank waits without a reply: its requests complete on the host as soon as their messages have arrived.
Task<> ReplayedRank::on(const stream::WaitStarted& event) {
  for (const stream::Number request : event.requests) co_await finish(std::exchange(pending(request), {}));
}

Task<> ReplayedRank::on(const stream::Ask& event) {
  co_await boundary();
  if (event.question == stream::Question::clock) {
    co_await endpoint_.poll();  // which takes time: a loop that waits for a time must end
    send_reply(stream::ReplyKind::clock, {std::llround(endpoint_.first())});
    co_return;
  }
  result_of_query_ = true;
  query_is_repeated_ = !event.waited && is_repeated_query(event);
  if (query_is_repeated_) {
    discard_failed_poll();
    failed_queries_.clear();
    co_await endpoint_.wait_for_any_event();
  }
  query_start_ = endpoint_.now();
  if (!event.waited && !query_is_repeated_) co_await endpoint_.poll();
  if (event.question == stream::Question::message)
    co_await decide_message(event);
  else
    co_await decide_requests(event);
}

bool ReplayedRank::is_repeated_query(const stream::Ask& event) {
  if (last_failed_poll_ && accesses_ + skipped_ - *last_failed_poll_ > max_accesses_between_queries)
    failed_queries_.clear();
  return std::ranges::find(failed_queries_, event) != failed_queries_.end();
}

bool ReplayedRank::is_done(const Pending& request) const {
  if (request.collective) return request.collective->task.over;
  const RequestState* const state = request.message.state;
  return !state || state->serial != request.message.serial || state->done;
}

std::vector<std::int64_t> ReplayedRank::indices_of_done(const stream::Ask& event) {
  std::vector<std::int64_t> indices;
  for (std::size_t i = 0; i < event.at.size(); ++i)
    if (is_done(pending(event.at[i]))) indices.push_back(static_cast<std::int64_t>(i));
  if (event.question == stream::Question::one && indices.size() > 1) indices.resize(1);
  if (event.question == stream::Question::all && indices.size() < event.at.size()) indices.clear();
  return indices;
}

Task<> ReplayedRank::decide_requests(const stream::Ask& event) {
  auto indices = indices_of_done(event);
  while (event.waited && indices.empty()) {
    co_await endpoint_.wait_for_packet();
    indices = indices_of_done(event);
  }
  if (indices.empty())
    failed_queries_.push_back(event);
  else
    failed_queries_.clear();
  decided_.clear();
  for (const std::int64_t index : indices) decided_.push_back(event.at[static_cast<std::size_t>(index)]);
  send_reply(stream::ReplyKind::done, indices);
}

Task<> ReplayedRank::decide_message(const stream::Ask& event) {
  const Group& communicator = group(event.communicator);
  const Pattern allowed = pattern(communicator, event.peer, event.tag);
  if (event.waited) co_await endpoint_.probe(allowed);
  const Message* const message = decided_message_ = endpoint_.find_unexpected(allowed);
  if (!message) {
    failed_queries_.push_back(event);
    send_reply(stream::ReplyKind::message, {});
    co_return;
  }
  failed_queries_.clear();
  const auto peer = std::ranges::find(communicator.peers, message->from->rank()) - communicator.peers.begin();
  send_reply(stream::ReplyKind::message, {peer, message->tag});
}

}  // namespace nearfield::sim::replay

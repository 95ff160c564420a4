#include "sim/run/replay/requests.hpp"

#include <utility>

namespace nearfield::sim::replay {

void RecordedChoice::count_ready_request(RaceStatistics& races, const ConfigClock& ready_time) {
  if (!is_counted) return;
  const ConfigMask early_configs = configs_before(ready_time, limit);
  --num_open_requests;
  late_configs |= ~early_configs;
  if (!needs_all)
    races.add_divergence(divergent_configs, early_configs);
  else if (num_open_requests == 0)
    races.add_divergence(divergent_configs, early_configs & ~late_configs);
}

Requests::Requests(Rank& rank, FirstReads* first_reads)
    : rank_(rank), first_reads_(first_reads), scratch_([&rank](std::uint64_t bytes) { return rank.allocate(bytes); }) {}

Task<ConfigClock> Requests::complete_request(PendingRequest request) {
  Endpoint& endpoint = rank_.endpoint();
  const bool is_message = request.message.state;
  const bool is_received = request.receive && is_message && request.message.state->serial == request.message.serial;
  if (request.collective)
    co_await endpoint.wait(request.collective->task);
  else
    co_await rank_.wait(request.message);
  if (first_reads_ && is_received)
    first_reads_->add_message(request.receive->call, request.receive->buffers.front(), endpoint.last_received_bytes(),
                              endpoint.last_data_arrival(), endpoint.ordering_clock());
  if (first_reads_ && request.collective) record_results(*request.receive);
  const ConfigClock ready_time = is_message ? endpoint.last_ready_time() : endpoint.now();
  for (const auto& choice : request.choices) choice->count_ready_request(endpoint.race_statistics(), ready_time);
  co_return ready_time;
}

Task<> Requests::complete_requests(std::span<const stream::Number> requests) {
  for (const stream::Number request : requests) co_await complete_request(request);
}

void Requests::record_results(const PostedReceive& receive) {
  const Ps now = rank_.endpoint().ordering_clock();
  for (const Buffer& buffer : receive.buffers)
    first_reads_->add_message(receive.call, buffer, buffer.bytes(), now, now);
}

bool Requests::is_done(stream::Number request) {
  const PendingRequest& pending = pending_request(request);
  if (pending.collective) return pending.collective->task.is_over;
  const RequestState* const state = pending.message.state;
  return !state || state->serial != pending.message.serial || state->is_done;
}

Task<> Requests::send_buffered(const Pattern& to, const Buffer& data) {
  for (BufferedSend& send : buffered_sends_) {
    if (!send.request.state->is_done) continue;
    co_await rank_.wait(std::exchange(send.request, {}));
    if (send.bytes > 0) scratch_.release(send.copy, send.bytes);
  }
  std::erase_if(buffered_sends_, [](const BufferedSend& send) { return !send.request.state; });
  const Buffer copy(data.bytes() > 0 ? scratch_.acquire(data.bytes()) : 0, data.bytes());
  co_await rank_.copy(copy, data);
  buffered_sends_.push_back({rank_.endpoint().send(to, copy), copy.address, copy.bytes()});
}

Task<> Requests::run_or_begin_collective(stream::Number request, CommunicatorGroup& group,
                                         CollectiveArguments arguments, const CallTimes::CallKey& call) {
  const int ranks = static_cast<int>(group.member_ranks.size());
  PostedReceive receive{call, {}};
  if (first_reads_) {
    const Ps now = rank_.endpoint().ordering_clock();
    for (const Buffer& buffer : input_buffers(arguments, ranks)) first_reads_->record_read(buffer, now);
    receive.buffers = output_buffers(arguments, ranks);
  }
  const Pattern to{0, group.num_collectives++ & 0x3fffffff, 2 * group.context + 1};
  if (request == 0) {
    GroupCommunicator comm(rank_, group.member_ranks, group.own_number, to, scratch_, nullptr);
    co_await run_collective(comm, arguments);
    if (first_reads_) record_results(receive);
    co_return;
  }
  pending_request(request) = {{}, std::make_unique<NonblockingCollective>(), {}, std::move(receive)};
  NonblockingCollective& nonblocking = *pending_request(request).collective;
  nonblocking.arguments = std::move(arguments);
  nonblocking.comm =
      std::make_unique<GroupCommunicator>(rank_, group.member_ranks, group.own_number, to, scratch_, &nonblocking.task);
  nonblocking.task.work = run_collective(*nonblocking.comm, nonblocking.arguments);
  co_await rank_.endpoint().begin_collective(nonblocking.task);
}

Task<> Requests::finalize() {
  for (const BufferedSend& send : buffered_sends_) co_await rank_.wait(send.request);
  for (PendingRequest& request : pending_requests_) forgotten_requests_.push_back(std::move(request));
  for (PendingRequest& request : forgotten_requests_) {
    const RequestState* const message = request.message.state;
    if (request.collective || (message && message->direction == RequestState::Direction::send))
      co_await complete_request(std::move(request));
  }
}

}  // namespace nearfield::sim::replay

#include "sim/mpi/endpoint.hpp"

#include <algorithm>
#include <stdexcept>

#include "sim/nic/nic.hpp"

namespace nearfield::sim {
namespace {

constexpr std::uint64_t lines_per_queue = 32;  // cache lines of the packet queue from one rank of a node to another
// The bytes that a rank accesses before it yields to other ranks. The simulated memory serves requests in the order of
// the calls, so ranks that share a memory must not run ahead of each other by more than one or two cache lines.
constexpr std::uint64_t slice_bytes_alone = 4096, slice_bytes_shared = 128;

std::uint64_t longest_line_bytes(const Machine& machine) {
  int longest = 64;
  for (const auto& cache : machine.caches) longest = std::max(longest, cache.line_bytes);
  return static_cast<std::uint64_t>(longest);
}

}  // namespace

Endpoint::Endpoint(NodeState& node_state, Node& node, Nic* nic, int rank, int core, bool is_alone_on_node)
    : node_state_(node_state),
      cluster_(node_state.cluster),
      node_(node),
      nic_(nic),
      rank_(rank),
      core_(core),
      rank_interface_(*this),
      scratch_([&node, core](std::uint64_t bytes) { return node.allocate(core, bytes); }),
      progress_(node_state.engine, rank),
      send_time_(ps_from_ns(messaging().send_ns)),
      receive_time_(ps_from_ns(messaging().receive_ns)),
      match_time_(ps_from_ns(messaging().match_ns)),
      slice_bytes_(is_alone_on_node ? slice_bytes_alone : slice_bytes_shared) {}

// ---- calls of programs

Request Endpoint::send(const Pattern& to, const Buffer& data, bool is_synchronous) {
  RequestState& state = make_request(RequestState::Direction::send, to, data);
  state.is_synchronous = is_synchronous;
  queue_or_perform({&state, 0});
  return {&state, state.serial};
}

Request Endpoint::receive(const Pattern& from, const Buffer& buffer, const std::optional<Pattern>& program_pattern,
                          std::uint64_t notify_id) {
  RequestState& state = make_request(RequestState::Direction::receive, from, buffer);
  state.program_pattern = program_pattern;
  state.notify_id = notify_id;
  queue_or_perform({&state, 0});
  return {&state, state.serial};
}

RequestState& Endpoint::make_request(RequestState::Direction direction, const Pattern& pattern, const Buffer& buffer) {
  const int size = static_cast<int>(cluster_.ranks.size()), peer = pattern.peer;
  const bool is_any_rank = direction == RequestState::Direction::receive && peer == any_rank;
  if ((peer < 0 || peer >= size) && !is_any_rank)
    throw std::out_of_range("rank " + std::to_string(rank_) +
                            (direction == RequestState::Direction::send ? " sends to rank " : " receives from rank ") +
                            std::to_string(peer) + "; there are 0 to " + std::to_string(size - 1));
  RequestState* const state = node_state_.requests.acquire();
  const std::uint64_t serial = state->serial + 1;
  *state = RequestState{};
  static_cast<Pattern&>(*state) = pattern;
  state->direction = direction;
  state->buffer = buffer;
  state->serial = serial;
  return *state;
}

void Endpoint::queue_or_perform(const QueuedCall& call) {
  const bool is_earliest_event = !node_.has_memory() || !node_state_.engine.has_event_until(ordering_clock());
  if (queued_calls_.empty() && is_earliest_event)
    perform_call(call);
  else
    queued_calls_.push_back(call);
}

Task<> Endpoint::flush_calls() {
  for (std::size_t i = 0; i < queued_calls_.size(); ++i) {
    co_await sync_with_engine();
    perform_call(queued_calls_[i]);
  }
  queued_calls_.clear();
}

void Endpoint::flush_calls_now() {
  for (const QueuedCall& call : queued_calls_) perform_call(call);
  queued_calls_.clear();
}

void Endpoint::perform_call(const QueuedCall& call) {
  if (!call.state) return advance_clock(call.duration);
  const ConfigClock before = now();
  if (call.state->direction == RequestState::Direction::send) {
    perform_send(*call.state);
    time_in_calls_.send_time += now() - before;
  } else {
    perform_receive(*call.state);
    time_in_calls_.receive_time += now() - before;
  }
}

void Endpoint::reset_time_in_calls() {
  const ConfigClock none(cluster_.num_variants);
  time_in_calls_ = {none, none, none};
}

void Endpoint::perform_send(RequestState& state) {
  Endpoint& receiver = endpoint_of(state.peer);
  advance_clock(send_time_);
  Message& message = *node_state_.messages.acquire();
  message = Message{};
  message.from = this;
  message.to = &receiver;
  const bool is_within_node = &receiver.node_state_ == &node_state_;
  message.tag = state.tag;
  message.context = state.context;
  message.data = state.buffer;
  message.send_time = now();
  message.bytes = state.buffer.bytes();
  message.sequence = peer_states_[state.peer].num_sent_messages++;
  message.is_synchronous = state.is_synchronous;
  message.num_references = is_within_node ? 2 : 1;
  message.protocol = is_within_node ? &node_state_.protocol_within_node(message.data, message.is_synchronous)
                                    : &node_state_.protocol_between_nodes(message.bytes, message.is_synchronous);
  message.send = &state;
  message.protocol->start_send(*this, message);
}

void Endpoint::perform_receive(RequestState& state) {
  const bool may_be_from_any_rank =
      state.peer == any_rank || (state.program_pattern && state.program_pattern->peer == any_rank);
  const bool may_be_from_network =
      may_be_from_any_rank ? has_nic() : &endpoint_of(state.peer).node_state_ != &node_state_;
  advance_clock(receive_time_);
  if (may_be_from_network && node_state_.network_large->matches_at_nic()) nic_->post_command(core_);
  state.post_time = now();
  if (state.program_pattern) races_.record_forced_match(state);
  Message* const message = queues_.match_unexpected(state);
  if (!message) return queues_.post_receive(state);
  check_message_fits(*message, state);
  if (state.program_pattern)
    races_.record_choice({*state.program_pattern, message->from->rank_, state.number, message->visible_time}, message);
  message->receive = &state;
  report_match(state, *message);
  message->protocol->handle_posted_receive(*this, *message);
}

Task<> Endpoint::wait(Request request) {
  RequestState* const state = request.state;
  if (!state || state->serial != request.serial) co_return;
  if (!queued_calls_.empty()) co_await flush_calls();
  const ConfigClock before = now();
  progress_.begin_wait(ProgressEngine::WaitReason::request, state);
  while (!state->is_done) co_await handle_next_packet();
  progress_.end_wait();
  time_in_calls_.wait_time += now() - before;
  last_ready_time_ = state->ready_time;
  last_received_bytes_ = state->matched_bytes;
  last_data_arrival_ = state->data_arrival.value_or(state->ready_time.first());
  free_request(*state);
}

void Endpoint::free_request(RequestState& state) {
  ++state.serial;
  node_state_.requests.release(&state);
}

Task<> Endpoint::probe(const Pattern& pattern, const std::optional<Pattern>& program_pattern, bool is_blocking,
                       std::optional<ConfigClock> probe_begin) {
  if (!queued_calls_.empty()) co_await flush_calls();
  const ConfigClock before = now();
  if (!probe_begin) {
    probe_begin = before;
    advance_clock(match_time_);
  }
  progress_.begin_wait(ProgressEngine::WaitReason::message, &pattern);
  const Message* message = nullptr;
  while (true) {
    co_await sync_with_engine();  // a message that the NIC matches in the meantime wakes no rank
    if ((message = queues_.oldest_unexpected(pattern))) break;
    co_await handle_next_packet();
  }
  progress_.end_wait();
  if (program_pattern) {
    MatchChoice choice{*program_pattern, message->from->rank_, queues_.next_receive_number(), message->visible_time};
    if (!is_blocking) choice.divergent_configs = sim::configs_before(*probe_begin, message->visible_time);
    races_.record_choice(choice, message);
  }
  // The NIC holds the message from this time on.
  if (message->held_transfer) wait_for_step(message->held_transfer->origin, message->held_transfer->first_byte_arrival);
  time_in_calls_.wait_time += now() - before;
}

Task<> Endpoint::poll_packets() {
  if (!queued_calls_.empty()) co_await flush_calls();
  const ConfigClock before = now();
  advance_clock(match_time_);
  co_await sync_with_engine();
  while (progress_.has_packet()) co_await handle_next_packet();
  time_in_calls_.wait_time += now() - before;
}

Task<> Endpoint::wait_for_packet() {
  if (!queued_calls_.empty()) co_await flush_calls();
  const ConfigClock before = now();
  progress_.begin_wait(ProgressEngine::WaitReason::packet);
  co_await handle_next_packet();
  progress_.end_wait();
  time_in_calls_.wait_time += now() - before;
}

Task<> Endpoint::wait_for_any_event() {
  if (!queued_calls_.empty()) co_await flush_calls();
  const ConfigClock before = now();
  progress_.begin_wait(ProgressEngine::WaitReason::any_event);
  co_await handle_next_packet();
  progress_.end_wait();
  while (progress_.has_packet()) co_await handle_next_packet();
  time_in_calls_.wait_time += now() - before;
}

void Endpoint::wake_idle(Ps when) {
  if (when > ordering_clock()) advance_clock(when - ordering_clock());
  progress_.wake_idle(ordering_clock());
}

// WindowScheduler resumes the ranks between two windows. If there is only one node, the window ends as soon as the last
// rank has arrived.
void Endpoint::BarrierArrival::await_suspend(std::coroutine_handle<> waiting) const {
  endpoint.node_state_.ranks_in_barrier.emplace_back(&endpoint, waiting);
  if (endpoint.node_state_.ranks_in_barrier.size() == endpoint.cluster_.ranks.size())
    endpoint.node_state_.engine.end_window();
}

Task<> Endpoint::barrier() {
  if (!queued_calls_.empty()) co_await flush_calls();
  node_.drain(core_);
  co_await sync_with_engine();
  progress_.begin_wait(ProgressEngine::WaitReason::barrier);
  co_await BarrierArrival{*this};
  progress_.end_wait();
}

// ---- packets

ProtocolPacket* Endpoint::make_packet(Message& message, PacketKind kind) {
  ProtocolPacket* const packet = node_state_.packets.acquire();
  *packet = ProtocolPacket{};
  packet->message = &message;
  packet->kind = kind;
  packet->owner = this;
  return packet;
}

void Endpoint::deliver_packet(ProtocolPacket* packet) {
  const auto deliver = [](void* argument) {
    auto* const packet = static_cast<ProtocolPacket*>(argument);
    packet->owner->push_packet(packet);
  };
  node_state_.engine.schedule(std::max(packet->visible_time.first(), node_state_.engine.now()), deliver, packet);
}

// Returns whether the receiver gets the packet's header with the message's data.
bool Endpoint::data_contains_header(const ProtocolPacket& packet) const {
  const Message& message = *packet.message;
  const bool is_inline = message.bytes > 0 && message.bytes <= messaging().inline_bytes;
  return packet.kind == PacketKind::arrived && (message.send_staging != 0 || is_inline);
}

StepId Endpoint::notify_peer(Endpoint& other, ProtocolPacket* packet, Address line) {
  packet->owner = &other;
  packet->is_in_list = has_separate_headers() && !line && !bypasses_packet_list(*packet);
  packet->polled_line = line ? line : packet->is_in_list ? other.packet_list_line() : other.next_packet_line(rank_);
  if (packet->is_in_list && !data_contains_header(*packet)) {
    packet->header_line = other.next_packet_line(rank_);
    node_.access(core_, Access::store, packet->header_line, 8);
  }
  node_.drain(core_);  // the data that the packet announces must have been written
  if (packet->is_in_list)
    node_.access(core_, Access::chase, packet->polled_line, 8);  // an atomic exchange of the list's end
  node_.access(core_, Access::store, packet->polled_line, 8);
  packet->visible_time = now();
  const StepId step = add_notify_step();
  packet->origin = step;
  deliver_packet(packet);
  return step;
}

void Endpoint::wait_for_step(StepId origin, const ConfigClock& visible_time) {
  if (schedule_) schedule_->add_wait(origin, 0, now(), visible_time);
  node_.wait_until(core_, visible_time);
}

// Returns whether a packet is written into the packet queue between the two ranks instead of the receiver's list. This
// holds for eager messages that are so short that the sender does not wait for the receiver.
bool Endpoint::bypasses_packet_list(const ProtocolPacket& packet) const {
  const std::uint64_t bytes = packet.message->bytes;
  return packet.kind == PacketKind::arrived && bytes > 0 && bytes <= messaging().unattended_bytes &&
         bytes <= messaging().node_eager_bytes;
}

Address Endpoint::packet_list_line() {
  if (packet_list_line_ == 0) packet_list_line_ = node_.allocate(core_, longest_line_bytes(cluster_.machine));
  return packet_list_line_;
}

Address Endpoint::next_packet_line(int from) {
  PeerState& sender = peer_states_[from];
  const std::uint64_t bytes = longest_line_bytes(cluster_.machine);
  if (sender.packet_lines == 0) sender.packet_lines = node_.allocate(core_, lines_per_queue * bytes);
  return sender.packet_lines + sender.next_line++ % lines_per_queue * bytes;
}

void Endpoint::read_packet_line(const ProtocolPacket& packet) {
  if (schedule_) schedule_->add_wait(packet.origin, packet.latency, now(), packet.visible_time);
  if (packet.is_nic_event) return nic_->poll_event(core_, packet.polled_line, packet.visible_time);
  node_.wait_until(core_, packet.visible_time);
  // If this packet was already in the list when the preceding packet was read, the preceding packet's header names it.
  const bool is_linked = packet.is_in_list && packet.visible_time.first() <= last_list_read_time_;
  if (packet.polled_line && !is_linked) node_.access(core_, Access::chase, packet.polled_line, 8);
  if (packet.is_in_list && !is_linked)
    node_.access(core_, Access::store, packet.polled_line, 8);  // the list is empty now
  if (packet.header_line) node_.access(core_, Access::chase, packet.header_line, 8);
  if (packet.is_in_list) last_list_read_time_ = now().first();
}

// Waits for the next packet and handles it.
Task<> Endpoint::handle_next_packet() {
  co_await sync_with_engine();
  ProtocolPacket* const packet = co_await progress_.next_packet();
  if (!packet) co_return;
  Message& message = *packet->message;
  read_packet_line(*packet);
  handled_packet_ = packet;
  if (packet->kind == PacketKind::arrived) {
    advance_clock(match_time_);
    message.receive = match_arrival(message, packet->visible_time);
    if (message.receive) co_await message.protocol->handle_match(*this, message);
  } else if (packet->kind == PacketKind::matched) {
    co_await message.protocol->handle_match(*this, message);
  } else {
    co_await message.protocol->handle_packet(*this, message, *packet);
  }
  handled_packet_ = nullptr;
  node_state_.packets.release(packet);
  if (!async_tasks_.empty()) co_await resume_tasks();
}

// ---- protocols

Task<> Endpoint::copy(const Buffer& to, std::uint64_t to_offset, const Buffer& from, std::uint64_t from_offset,
                      std::uint64_t bytes) {
  return work_in_slices(bytes, [this, to, to_offset, from, from_offset](std::uint64_t offset, std::uint64_t part) {
    node_.copy(core_, to, to_offset + offset, from, from_offset + offset, part);
  });
}

Address Endpoint::acquire_pack_buffer(Message& message) {
  if (message.data.is_contiguous() || message.bytes == 0) return message.data.address;
  message.send_staging = scratch_.acquire(message.bytes);
  copy_now(Buffer(message.send_staging, message.bytes), message.data, message.bytes);
  return message.send_staging;
}

void Endpoint::release_pack_buffer(Message& message) {
  if (message.send_staging) scratch_.release(message.send_staging, message.bytes);
}

Address Endpoint::acquire_landing_buffer(RequestState& receive, std::uint64_t bytes) {
  if (receive.buffer.is_contiguous() || bytes == 0) return receive.buffer.address;
  receive.landing_buffer = scratch_.acquire(bytes);
  return receive.landing_buffer;
}

Task<> Endpoint::unpack_landing_buffer(RequestState& receive, std::uint64_t bytes) {
  if (!receive.landing_buffer) co_return;
  co_await copy(receive.buffer, 0, Buffer(receive.landing_buffer, bytes), 0, bytes);
  scratch_.release(receive.landing_buffer, bytes);
}

void Endpoint::complete_request(RequestState*& state) {
  state->is_done = true;
  state->ready_time = now();
  if (handled_packet_) {
    const ConfigClock& sent = handled_packet_->message->send_time;
    const bool receives = state->direction == RequestState::Direction::receive;
    state->ready_time =
        extrapolate_completion(receives ? later(sent, state->post_time) : sent, handled_packet_->visible_time);
  }
  state = nullptr;
}

NicTransfer Endpoint::post_command(Message& message) {
  NicTransfer transfer;
  transfer.message = &message;
  transfer.from = this;
  transfer.to = message.from == this ? message.to : message.from;
  transfer.command_entry = nic_->post_command(core_);
  return transfer;
}

void Endpoint::check_message_fits(const Message& message, const RequestState& receive) const {
  if (message.bytes <= receive.buffer.bytes()) return;
  throw std::length_error("rank " + std::to_string(rank_) + " receives " + std::to_string(receive.buffer.bytes()) +
                          " bytes at most from rank " + std::to_string(message.from->rank_) + " with tag " +
                          std::to_string(message.tag) + ", but " + std::to_string(message.bytes) + " were sent");
}

RequestState* Endpoint::match_arrival(Message& message, const ConfigClock& visible) {
  message.visible_time = extrapolate_completion(message.send_time, visible);
  RequestState* const receive = queues_.match_posted(message);
  races_.record_arrival(message, receive);
  if (receive) {
    check_message_fits(message, *receive);
    report_match(*receive, message);
    return receive;
  }
  queues_.add_unexpected(message);
  progress_.notify_unexpected();
  return nullptr;
}

}  // namespace nearfield::sim

#include "sim/mpi/endpoint.hpp"

#include <algorithm>
#include <stdexcept>

#include "sim/nic/nic.hpp"

namespace nearfield::sim {
namespace {

constexpr std::uint64_t lines_per_queue = 32;  // cache lines of the packet queue from one rank of a node to another
// The bytes that a rank accesses before it yields to other ranks. The simulated memory serves requests in the order of
// the calls, so ranks that share a memory must not run ahead of each other by more than one or two cache lines.
constexpr std::uint64_t slice_alone = 4096, slice_shared = 128;

std::uint64_t line_bytes(const Machine& machine) {
  int longest = 64;
  for (const auto& cache : machine.caches) longest = std::max(longest, cache.line_bytes);
  return static_cast<std::uint64_t>(longest);
}

}  // namespace

Endpoint::Endpoint(NodeState& node_state, Node& node, Nic* nic, int rank, int core, bool alone)
    : node_state_(node_state),
      cluster_(node_state.cluster),
      node_(node),
      nic_(nic),
      rank_(rank),
      core_(core),
      facade_(*this),
      scratch_([&node, core](std::uint64_t bytes) { return node.allocate(core, bytes); }),
      progress_(node_state.engine, rank),
      send_(ps_from_ns(messaging().send_ns)),
      receive_(ps_from_ns(messaging().receive_ns)),
      match_(ps_from_ns(messaging().match_ns)),
      slice_bytes_(alone ? slice_alone : slice_shared) {}

// ---- calls of programs

Request Endpoint::send(const Pattern& to, const Buffer& data, bool synchronous) {
  RequestState& state = make_request(RequestState::Direction::send, to, data);
  state.synchronous = synchronous;
  queue_or_perform({&state, 0});
  return {&state, state.serial};
}

Request Endpoint::receive(const Pattern& from, const Buffer& buffer, const std::optional<Pattern>& allowed,
                          std::uint64_t notify_id) {
  RequestState& state = make_request(RequestState::Direction::receive, from, buffer);
  state.allowed = allowed;
  state.notify_id = notify_id;
  queue_or_perform({&state, 0});
  return {&state, state.serial};
}

RequestState& Endpoint::make_request(RequestState::Direction direction, const Pattern& pattern, const Buffer& buffer) {
  const int size = static_cast<int>(cluster_.ranks.size()), peer = pattern.peer;
  const bool any = direction == RequestState::Direction::receive && peer == any_rank;
  if ((peer < 0 || peer >= size) && !any)
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
  const bool first_of_all = !node_.has_memory() || !node_state_.engine.has_event_until(ordering_clock());
  if (calls_.empty() && first_of_all)
    perform_call(call);
  else
    calls_.push_back(call);
}

Task<> Endpoint::flush_calls() {
  for (std::size_t i = 0; i < calls_.size(); ++i) {
    co_await sync_with_engine();
    perform_call(calls_[i]);
  }
  calls_.clear();
}

void Endpoint::flush_calls_now() {
  for (const QueuedCall& call : calls_) perform_call(call);
  calls_.clear();
}

void Endpoint::perform_call(const QueuedCall& call) {
  if (!call.state) return advance_clock(call.duration);
  const ConfigClock before = now();
  if (call.state->direction == RequestState::Direction::send) {
    perform_send(*call.state);
    in_calls_.sending += now() - before;
  } else {
    perform_receive(*call.state);
    in_calls_.receiving += now() - before;
  }
}

void Endpoint::reset_time_in_calls() {
  const ConfigClock none(cluster_.variants);
  in_calls_ = {none, none, none};
}

void Endpoint::perform_send(RequestState& state) {
  Endpoint& receiver = endpoint_of(state.peer);
  advance_clock(send_);
  Message& message = *node_state_.messages.acquire();
  message = Message{};
  message.from = this;
  message.to = &receiver;
  const bool within_node = &receiver.node_state_ == &node_state_;
  message.tag = state.tag;
  message.context = state.context;
  message.data = state.buffer;
  message.sent = now();
  message.bytes = state.buffer.bytes();
  message.sequence = peer_states_[state.peer].sent++;
  message.synchronous = state.synchronous;
  message.holders = within_node ? 2 : 1;
  message.protocol = within_node ? &node_state_.protocol_within_node(message.data, message.synchronous)
                                 : &node_state_.protocol_between_nodes(message.bytes, message.synchronous);
  message.send = &state;
  message.protocol->start_send(*this, message);
}

void Endpoint::perform_receive(RequestState& state) {
  const bool from_anywhere = state.peer == any_rank || (state.allowed && state.allowed->peer == any_rank);
  const bool by_network = from_anywhere ? has_nic() : &endpoint_of(state.peer).node_state_ != &node_state_;
  advance_clock(receive_);
  if (by_network && node_state_.network_large->matches_at_nic()) nic_->post(core_);
  state.posted = now();
  if (state.allowed) races_.record_forced_match(state);
  Message* const message = queues_.match_unexpected(state);
  if (!message) return queues_.post_receive(state);
  check_message_fits(*message, state);
  if (state.allowed)
    races_.record_choice({*state.allowed, message->from->rank_, state.number, message->visible}, message);
  message->receive = &state;
  report_match(state, *message);
  message->protocol->handle_posted_receive(*this, *message);
}

Task<> Endpoint::wait(Request request) {
  RequestState* const state = request.state;
  if (!state || state->serial != request.serial) co_return;
  if (!calls_.empty()) co_await flush_calls();
  const ConfigClock before = now();
  progress_.begin_wait(ProgressEngine::WaitReason::request, state);
  while (!state->done) co_await handle_next_packet();
  progress_.end_wait();
  in_calls_.waiting += now() - before;
  ready_ = state->ready;
  received_bytes_ = state->matched_bytes;
  data_arrived_ = state->data_arrived.value_or(state->ready.first());
  free_request(*state);
}

void Endpoint::free_request(RequestState& state) {
  ++state.serial;
  node_state_.requests.release(&state);
}

Task<> Endpoint::probe(const Pattern& pattern, const std::optional<Pattern>& allowed, bool waited,
                       std::optional<ConfigClock> since) {
  if (!calls_.empty()) co_await flush_calls();
  const ConfigClock before = now();
  if (!since) {
    since = before;
    advance_clock(match_);
  }
  progress_.begin_wait(ProgressEngine::WaitReason::message, &pattern);
  const Message* message = nullptr;
  while (true) {
    co_await sync_with_engine();  // a message that the NIC matches in the meantime wakes no rank
    if ((message = queues_.oldest_unexpected(pattern))) break;
    co_await handle_next_packet();
  }
  progress_.end_wait();
  if (allowed) {
    MatchChoice choice{*allowed, message->from->rank_, queues_.next_receive_number(), message->visible};
    if (!waited) choice.divergent = sim::configs_before(*since, message->visible);
    races_.record_choice(choice, message);
  }
  // The NIC holds the message from this time on.
  if (message->held) wait_for_step(message->held->origin, message->held->first);
  in_calls_.waiting += now() - before;
}

Task<> Endpoint::poll() {
  if (!calls_.empty()) co_await flush_calls();
  const ConfigClock before = now();
  advance_clock(match_);
  co_await sync_with_engine();
  while (progress_.has_packet()) co_await handle_next_packet();
  in_calls_.waiting += now() - before;
}

Task<> Endpoint::wait_for_packet() {
  if (!calls_.empty()) co_await flush_calls();
  const ConfigClock before = now();
  progress_.begin_wait(ProgressEngine::WaitReason::packet);
  co_await handle_next_packet();
  progress_.end_wait();
  in_calls_.waiting += now() - before;
}

Task<> Endpoint::wait_for_any_event() {
  if (!calls_.empty()) co_await flush_calls();
  const ConfigClock before = now();
  progress_.begin_wait(ProgressEngine::WaitReason::any_event);
  co_await handle_next_packet();
  progress_.end_wait();
  while (progress_.has_packet()) co_await handle_next_packet();
  in_calls_.waiting += now() - before;
}

void Endpoint::wake_idle(Ps when) {
  if (when > ordering_clock()) advance_clock(when - ordering_clock());
  progress_.wake_idle(ordering_clock());
}

// WindowScheduler resumes the ranks. When the last rank of a single node arrives, the window ends at once.
void Endpoint::BarrierArrival::await_suspend(std::coroutine_handle<> waiting) const {
  me.node_state_.in_barrier.emplace_back(&me, waiting);
  if (me.node_state_.in_barrier.size() == me.cluster_.ranks.size()) me.node_state_.engine.end_window();
}

Task<> Endpoint::barrier() {
  if (!calls_.empty()) co_await flush_calls();
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
  const auto act = [](void* what) {
    auto* const packet = static_cast<ProtocolPacket*>(what);
    packet->owner->push_packet(packet);
  };
  node_state_.engine.schedule(std::max(packet->visible.first(), node_state_.engine.now()), act, packet);
}

// Returns whether the receiver gets the packet's header with the message's data.
bool Endpoint::data_contains_header(const ProtocolPacket& packet) const {
  const Message& message = *packet.message;
  const bool is_inline = message.bytes > 0 && message.bytes <= messaging().inline_bytes;
  return packet.kind == PacketKind::arrived && (message.staged_out != 0 || is_inline);
}

StepId Endpoint::notify_peer(Endpoint& other, ProtocolPacket* packet, Address line) {
  packet->owner = &other;
  packet->in_list = has_separate_headers() && !line && !goes_past_list(*packet);
  packet->line = line ? line : packet->in_list ? other.packet_list_line() : other.next_packet_line(rank_);
  if (packet->in_list && !data_contains_header(*packet)) {
    packet->header = other.next_packet_line(rank_);
    node_.access(core_, Access::store, packet->header, 8);
  }
  node_.drain(core_);  // the data that the packet announces must have been written
  if (packet->in_list) node_.access(core_, Access::chase, packet->line, 8);  // an atomic exchange of the list's end
  node_.access(core_, Access::store, packet->line, 8);
  packet->visible = now();
  const StepId step = add_notify_step();
  packet->origin = step;
  deliver_packet(packet);
  return step;
}

void Endpoint::wait_for_step(StepId origin, const ConfigClock& until) {
  if (schedule_) schedule_->add_wait(origin, 0, now(), until);
  node_.wait_until(core_, until);
}

// Returns whether a packet is written into memory of the two ranks alone: a message that its sender need not wait for.
bool Endpoint::goes_past_list(const ProtocolPacket& packet) const {
  const std::uint64_t bytes = packet.message->bytes;
  return packet.kind == PacketKind::arrived && bytes > 0 && bytes <= messaging().unattended_bytes &&
         bytes <= messaging().node_eager_bytes;
}

Address Endpoint::packet_list_line() {
  if (packet_list_ == 0) packet_list_ = node_.allocate(core_, line_bytes(cluster_.machine));
  return packet_list_;
}

Address Endpoint::next_packet_line(int from) {
  PeerState& sender = peer_states_[from];
  const std::uint64_t bytes = line_bytes(cluster_.machine);
  if (sender.lines == 0) sender.lines = node_.allocate(core_, lines_per_queue * bytes);
  return sender.lines + sender.next_line++ % lines_per_queue * bytes;
}

void Endpoint::read_packet_line(const ProtocolPacket& packet) {
  if (schedule_) schedule_->add_wait(packet.origin, packet.latency, now(), packet.visible);
  if (packet.of_nic) return nic_->poll(core_, packet.line, packet.visible);
  node_.wait_until(core_, packet.visible);
  // The header of a packet in the list names the next packet, if that was there already.
  const bool is_linked = packet.in_list && packet.visible.first() <= packet_read_;
  if (packet.line && !is_linked) node_.access(core_, Access::chase, packet.line, 8);
  if (packet.in_list && !is_linked) node_.access(core_, Access::store, packet.line, 8);  // the list is empty now
  if (packet.header) node_.access(core_, Access::chase, packet.header, 8);
  if (packet.in_list) packet_read_ = now().first();
}

// Waits for the next packet and handles it.
Task<> Endpoint::handle_next_packet() {
  co_await sync_with_engine();
  ProtocolPacket* const packet = co_await progress_.next_packet();
  if (!packet) co_return;
  Message& message = *packet->message;
  read_packet_line(*packet);
  handled_ = packet;
  if (packet->kind == PacketKind::arrived) {
    advance_clock(match_);
    message.receive = match_arrival(message, packet->visible);
    if (message.receive) co_await message.protocol->handle_match(*this, message);
  } else if (packet->kind == PacketKind::matched) {
    co_await message.protocol->handle_match(*this, message);
  } else {
    co_await message.protocol->handle_packet(*this, message, *packet);
  }
  handled_ = nullptr;
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
  message.staged_out = scratch_.acquire(message.bytes);
  copy_now(Buffer(message.staged_out, message.bytes), message.data, message.bytes);
  return message.staged_out;
}

void Endpoint::release_pack_buffer(Message& message) {
  if (message.staged_out) scratch_.release(message.staged_out, message.bytes);
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
  state->done = true;
  state->ready = now();
  if (handled_) {
    const ConfigClock& sent = handled_->message->sent;
    const bool receives = state->direction == RequestState::Direction::receive;
    state->ready = extrapolate_completion(receives ? later(sent, state->posted) : sent, handled_->visible);
  }
  state = nullptr;
}

NicTransfer Endpoint::post_command(Message& message) {
  NicTransfer transfer;
  transfer.message = &message;
  transfer.from = this;
  transfer.to = message.from == this ? message.to : message.from;
  transfer.command = nic_->post(core_);
  return transfer;
}

void Endpoint::check_message_fits(const Message& message, const RequestState& receive) const {
  if (message.bytes <= receive.buffer.bytes()) return;
  throw std::length_error("rank " + std::to_string(rank_) + " receives " + std::to_string(receive.buffer.bytes()) +
                          " bytes at most from rank " + std::to_string(message.from->rank_) + " with tag " +
                          std::to_string(message.tag) + ", but " + std::to_string(message.bytes) + " were sent");
}

RequestState* Endpoint::match_arrival(Message& message, const ConfigClock& visible) {
  message.visible = extrapolate_completion(message.sent, visible);
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

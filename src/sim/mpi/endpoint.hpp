// The simulated MPI library of one rank: matching, waiting, and the protocols' work on the rank's core. All effects on
// other ranks are events of the engine, which run in the order of time. The rank's clock may run ahead of the engine;
// before the rank polls for packets, it waits until the engine has reached the rank's clock (sync_with_engine).
#pragma once

#include <coroutine>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "sim/mpi/node_state.hpp"
#include "sim/mpi/progress_engine.hpp"
#include "sim/mpi/protocols/scratch.hpp"
#include "sim/mpi/race_tracker.hpp"
#include "sim/mpi/rank.hpp"
#include "sim/mpi/schedule.hpp"
#include "sim/node/node.hpp"

namespace nearfield::sim {

class Nic;  // nic/nic.hpp

// A nonblocking collective, which progresses while the rank's program waits in any MPI call. The object must exist
// until the collective has been waited for, or the rank's run has ended.
struct AsyncProgressTask {
  Task<> work;
  std::coroutine_handle<> suspended_collective, suspended_program;  // where to resume the collective, and the program
  const RequestState* awaited_request = nullptr;
  bool is_over = false;
  std::exception_ptr failure;
};

class Endpoint {
 public:
  // `nic`: nullptr in a run of one node. `is_alone_on_node`: no other rank runs on the node.
  Endpoint(NodeState& node_state, Node& node, Nic* nic, int rank, int core, bool is_alone_on_node);

  ClusterState& cluster() { return cluster_; }
  NodeState& node_state() { return node_state_; }
  Node& node() { return node_; }
  bool has_nic() const { return nic_; }
  Nic& nic() { return *nic_; }
  int rank() const { return rank_; }
  int core() const { return core_; }
  int node_number() const { return node_state_.number; }
  const Messaging& messaging() const { return cluster_.machine.messaging; }
  Rank& rank_interface() { return rank_interface_; }
  std::vector<Mark>& marks() { return marks_; }
  const TimeInCalls& time_in_calls() const { return time_in_calls_; }
  void reset_time_in_calls();
  // Records this rank's schedule from this call on, with the times of a variant.
  void record_schedule(int variant) { schedule_.emplace(rank_, variant); }
  // Returns the rank's schedule; nullptr if it is not recorded.
  Schedule* schedule() { return schedule_ ? &*schedule_ : nullptr; }
  // Returns the steps of the schedule, the last of which is the end of the program; empty if it is not recorded.
  std::vector<ScheduleStep> end_schedule() { return schedule_ ? schedule_->end(now()) : std::vector<ScheduleStep>(); }

  ConfigClock now() const { return node_.now(core_); }
  // Returns the rank's clock in the first configuration, which decides the order of events.
  Ps ordering_clock() const { return node_.first(core_); }
  void advance_clock(Ps duration) { node_.advance(core_, duration); }
  // Returns an awaitable that resumes when the engine has reached this rank's clock.
  Engine::WaitUntilAwaitable sync_with_engine() { return node_state_.engine.wait_until(ordering_clock()); }

  // otherwise they are queued until the next wait (flush_calls) or until their order matters (flush_calls_now).
  Request send(const Pattern& to, const Buffer& data, bool is_synchronous = false);
  // Posts a receive of messages that match `from`. If `program_pattern` is given, the match is forced: `from` is the
  // recorded match, and `program_pattern` is the pattern of the program, which may have any_rank and any_tag; other
  // messages that match `program_pattern` are counted as races. If `notify_id` is not 0, the match callback is called
  // with this number.
  Request receive(const Pattern& from, const Buffer& buffer, const std::optional<Pattern>& program_pattern = {},
                  std::uint64_t notify_id = 0);
  // Is called when a receive matches, with the receive's notify_id, and the sender and tag of the message.
  using MatchCallback = std::function<void(std::uint64_t notify_id, int from, int tag)>;
  void set_match_callback(MatchCallback call) { match_callback_ = std::move(call); }
  void compute(Ps duration) { queue_or_perform({nullptr, duration}); }
  Task<> flush_calls();
  void flush_calls_now();
  Task<> wait(Request request);
  // Waits for an unexpected message that matches the pattern. If `program_pattern`, the pattern of the program, is
  // given, races with other messages are counted. `is_blocking`: the program blocked in the probe. `probe_begin`: when
  // the probe began, if the rank has polled already.
  Task<> probe(const Pattern& pattern, const std::optional<Pattern>& program_pattern = {}, bool is_blocking = true,
               std::optional<ConfigClock> probe_begin = {});
  // Returns the oldest unexpected message that matches the pattern; nullptr if there is none.
  const Message* find_unexpected_message(const Pattern& pattern) { return queues_.oldest_unexpected(pattern); }
  // record_unmatched_probe() records an Iprobe that found no message. discard_unmatched_probe() removes the record if
  // the Iprobe was an iteration of a polling loop.
  void record_unmatched_probe(const Pattern& program_pattern) {
    races_.record_choice({program_pattern, any_rank, queues_.next_receive_number(), now() + 1, 0, true}, nullptr);
  }
  void discard_unmatched_probe() { races_.discard_unmatched_probe(); }
  // Handles all packets that have arrived, without waiting for more, as MPI_Test does.
  Task<> poll_packets();
  // Waits for the next packet and handles it.
  Task<> wait_for_packet();
  // Waits for any packet. If no event is left on any node, the scheduler calls wake_idle(), which resumes the rank and
  // so breaks the deadlock.
  Task<> wait_for_any_event();
  // Begins a nonblocking collective, and runs the collective until it first waits.
  Task<> begin_collective(AsyncProgressTask& work);
  Task<> wait(AsyncProgressTask& work);
  // Waits for a request of the collective. Must be called by the collective itself.
  Task<> wait(AsyncProgressTask& work, Request request);
  // Returns the number of receives with a forced match that could have matched another message.
  std::uint64_t ambiguous_matches() const { return races_.ambiguous_matches(); }
  // Returns the statistics of outcomes that depend on timing.
  RaceStatistics& race_statistics() { return races_.statistics(); }
  // Returns the earliest possible completion time of the request for which the last wait() waited.
  const ConfigClock& last_ready_time() const { return last_ready_time_; }
  // Returns the length of the message that the last wait() for a receive completed, and when its data had arrived, in
  // the first configuration.
  std::uint64_t last_received_bytes() const { return last_received_bytes_; }
  Ps last_data_arrival() const { return last_data_arrival_; }
  // Sets the name of the MPI call that describe_wait() reports; nullptr: none. The text must outlive the call.
  void set_current_call(const std::string* name) { progress_.set_current_call(name); }
  Task<> barrier();
  // Returns the number of bytes that the rank accesses before it yields to other ranks.
  std::uint64_t slice_bytes() const { return slice_bytes_; }
  // Calls slice(offset, bytes) for consecutive slices of at most slice_bytes(), and yields to other ranks after each
  // slice.
  template <class Slice>
  Task<> work_in_slices(std::uint64_t bytes, Slice slice) {
    if (!queued_calls_.empty()) co_await flush_calls();
    for (std::uint64_t offset = 0; offset < bytes && node_.has_memory(); offset += slice_bytes_) {
      slice(offset, std::min(slice_bytes_, bytes - offset));
      co_await sync_with_engine();
    }
  }

  Task<> copy(const Buffer& to, std::uint64_t to_offset, const Buffer& from, std::uint64_t from_offset,
              std::uint64_t bytes);
  // Copies without yielding, in send().
  void copy_now(const Buffer& to, const Buffer& from, std::uint64_t bytes) { node_.copy(core_, to, 0, from, 0, bytes); }
  // Returns the address of contiguous memory with the message's data: the data itself or, if it is not contiguous, a
  // packed copy, which release_pack_buffer() frees.
  Address acquire_pack_buffer(Message& message);
  void release_pack_buffer(Message& message);
  // Returns the address of contiguous memory for the data of a receive: the receive buffer or, if it is not contiguous,
  // a temporary buffer, from which unpack_landing_buffer() copies the data to the receive buffer.
  Address acquire_landing_buffer(RequestState& receive, std::uint64_t bytes);
  Task<> unpack_landing_buffer(RequestState& receive, std::uint64_t bytes);
  // Completes a request of this rank. If the rank's program waits for the request, the program resumes.
  void complete_request(RequestState*& state);
  // Completes the request, and drops this rank's reference to the message; the other rank's reference remains.
  void complete_message(Message& message, RequestState*& state) {
    complete_request(state);
    node_state_.drop_reference(message);
  }
  // Posts a command to the NIC. Returns the description of a transfer from this rank to the other rank of the message;
  // the caller fills in the remaining members and starts the transfer.
  NicTransfer post_command(Message& message);
  // Returns the pool of internal buffers of this rank's library.
  ScratchPool& scratch_pool() { return scratch_; }

  // Writes a packet into shared memory that another rank of the node polls. `line`: the cache line to write; 0: the
  // next line of the packet queue between the two ranks. Returns the step of the schedule, if it is recorded.
  StepId notify_peer(Endpoint& other, ProtocolPacket* packet, Address line = 0);
  // Adds a notification without a packet to the schedule, if it is recorded.
  StepId add_notify_step() { return schedule_ ? schedule_->add_notify(now()) : StepId{}; }
  ProtocolPacket* make_packet(Message& message, PacketKind kind);
  // Waits until the instant `visible_time`, at which the step `origin` of another rank of the node was taken.
  void wait_for_step(StepId origin, const ConfigClock& visible_time);
  // Delivers a packet to its owner at the time ProtocolPacket::visible_time: from then on, the owner finds the packet
  // when it polls.
  void deliver_packet(ProtocolPacket* packet);
  void push_packet(ProtocolPacket* packet) { progress_.push_packet(packet); }
  // Returns the receive that matches a message, which arrives at `visible`; nullptr if the message is unexpected.
  RequestState* match_arrival(Message& message, const ConfigClock& visible);

  // Describes what the rank waits for; empty if it does not wait.
  std::string describe_wait() const { return progress_.describe_wait(); }
  bool can_be_woken() const { return progress_.can_be_woken(); }
  void wake_idle(Ps when);

 private:
  // The messages and packets between this rank and another one.
  struct PeerState {
    std::uint64_t num_sent_messages = 0;  // messages sent to the other rank
    Address packet_lines = 0;             // cache lines that the other rank writes and this rank polls
    std::uint64_t next_line = 0;
  };
  bool has_separate_headers() const { return messaging().headers == PacketHeader::separate; }
  bool data_contains_header(const ProtocolPacket& packet) const;
  bool bypasses_packet_list(const ProtocolPacket& packet) const;
  Address packet_list_line();

  struct BarrierArrival {
    Endpoint& endpoint;
    bool await_ready() const { return false; }
    void await_suspend(std::coroutine_handle<> waiting) const;
    void await_resume() const {}
  };

  // A queued call of the program.
  struct QueuedCall {
    RequestState* state = nullptr;  // nullptr: computation of `duration`
    Ps duration = 0;
  };

  Endpoint& endpoint_of(int rank) { return *cluster_.ranks[static_cast<std::size_t>(rank)]; }
  RequestState& make_request(RequestState::Direction direction, const Pattern& pattern, const Buffer& buffer);
  void queue_or_perform(const QueuedCall& call);
  void perform_call(const QueuedCall& call);
  void perform_send(RequestState& state);
  void perform_receive(RequestState& state);
  void check_message_fits(const Message& message, const RequestState& receive) const;
  Task<> handle_next_packet();
  // Records in the receive what message it has matched, and reports it.
  void report_match(RequestState& receive, const Message& message) const {
    receive.matched_bytes = message.bytes;
    if (message.protocol->arrives_with_data()) receive.data_arrival = message.visible_time.first();
    if (receive.notify_id && match_callback_) match_callback_(receive.notify_id, message.from->rank_, message.tag);
  }
  Task<> resume_tasks();
  void free_request(RequestState& state);
  void read_packet_line(const ProtocolPacket& packet);
  Address next_packet_line(int from);

  NodeState& node_state_;
  ClusterState& cluster_;
  Node& node_;
  Nic* nic_;
  int rank_, core_;
  Rank rank_interface_;
  ScratchPool scratch_;
  std::unordered_map<int, PeerState> peer_states_;
  MatchQueues queues_;
  RaceTracker races_{queues_};
  ProgressEngine progress_;
  const ProtocolPacket* handled_packet_ = nullptr;
  Address packet_list_line_ = 0;  // the line with the beginning and the end of this rank's list of packets
  Ps last_list_read_time_ = -1;   // when the last packet of the list was read, by the first memory speed
  ConfigClock last_ready_time_;
  std::uint64_t last_received_bytes_ = 0;
  Ps last_data_arrival_ = 0;
  std::vector<AsyncProgressTask*> async_tasks_;
  std::vector<QueuedCall> queued_calls_;
  MatchCallback match_callback_;
  std::vector<Mark> marks_;
  TimeInCalls time_in_calls_;
  std::optional<Schedule> schedule_;
  Ps send_time_, receive_time_, match_time_;
  std::uint64_t slice_bytes_;
};

}  // namespace nearfield::sim

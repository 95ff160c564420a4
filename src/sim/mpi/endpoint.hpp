// The MPI library of one rank: matching, waiting, and the protocols' work on its core. All effects on other ranks are
// events of the engine, in the order of time. The rank's own clock may be ahead of the engine; before the rank reads
// its inbox it waits until the engine has reached that clock (sync_with_engine).
#pragma once

#include <coroutine>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "sim/mpi/node_state.hpp"
#include "sim/mpi/progress_engine.hpp"
#include "sim/mpi/protocols/scratch.hpp"
#include "sim/mpi/race_tracker.hpp"
#include "sim/mpi/rank.hpp"
#include "sim/node/node.hpp"

namespace nearfield::sim {

class Nic;  // nic/nic.hpp

// A nonblocking collective, which progresses while the rank's program waits in any MPI call. It must outlive the rank's
// run, or be waited for.
struct AsyncProgressTask {
  Task<> work;
  std::coroutine_handle<> task, program;  // where to resume it, and the program when it waits or is over
  const RequestState* waits_for = nullptr;
  bool over = false;
  std::exception_ptr failure;
};

class Endpoint {
 public:
  // `nic`: nullptr in a run of one node. `alone`: no other rank runs on the node.
  Endpoint(NodeState& node_state, Node& node, Nic* nic, int rank, int core, bool alone);

  ClusterState& cluster() { return cluster_; }
  NodeState& node_state() { return node_state_; }
  Node& node() { return node_; }
  bool has_nic() const { return nic_; }
  Nic& nic() { return *nic_; }
  int rank() const { return rank_; }
  int core() const { return core_; }
  int node_number() const { return node_state_.number; }
  const Messaging& messaging() const { return cluster_.machine.messaging; }
  Rank& facade() { return facade_; }
  std::vector<Mark>& marks() { return marks_; }
  const TimeInCalls& in_calls() const { return in_calls_; }
  void reset_in_calls();

  ConfigClock now() const { return node_.now(core_); }
  Ps first() const { return node_.first(core_); }
  void advance(Ps duration) { node_.advance(core_, duration); }
  // Returns an awaitable that resumes when the engine has reached this rank's clock.
  Engine::AwaitableUntil sync_with_engine() { return node_state_.engine.until(first()); }

  // ---- for programs (rank.hpp). Sends, receives and computation run immediately if no earlier event is pending;
  // otherwise they are queued until the next wait (flush_calls) or until their order matters (flush_calls_now).
  Request send(const Pattern& to, const Buffer& data, bool synchronous = false);
  // With `allowed`, the program's pattern, which may have any_rank and any_tag, the match is forced: the receive only
  // matches messages of `from`, and other messages that match `allowed` are counted as races. If `notify_id` is not 0,
  // the callback of on_match() gets it.
  Request receive(const Pattern& from, const Buffer& buffer, const std::optional<Pattern>& allowed = {},
                  std::uint64_t notify_id = 0);
  // Is called when a receive matches: with its notify_id, and the message's sender and tag.
  using OnMatch = std::function<void(std::uint64_t notify_id, int from, int tag)>;
  void on_match(OnMatch call) { on_match_ = std::move(call); }
  void compute(Ps duration) { call({nullptr, duration}); }
  Task<> flush_calls();
  void flush_calls_now();
  Task<> wait(Request request);
  // Waits for an unexpected message that matches the pattern. With `allowed`, the program's own pattern, races with
  // other messages are counted; `waited`: the program blocked in the probe. `since`: when the probe began, if it has
  // polled already.
  Task<> probe(const Pattern& pattern, const std::optional<Pattern>& allowed = {}, bool waited = true,
               std::optional<ConfigClock> since = {});
  // Returns the oldest unexpected message that matches the pattern; nullptr if there is none.
  const Message* find_unexpected(const Pattern& pattern) { return queues_.oldest_unexpected(pattern); }
  // Records an Iprobe that found nothing; the second function removes it again when it was one iteration of a polling
  // loop.
  void record_failed_probe(const Pattern& allowed) {
    races_.record_choice({allowed, any_rank, queues_.next_number(), now() + 1, 0, true}, nullptr);
  }
  void discard_failed_probe() { races_.discard_failed_probe(); }
  // Handles all packets that have arrived, without waiting, as MPI_Test does.
  Task<> poll();
  // Waits for the next packet and handles it.
  Task<> wait_for_packet();
  // Waits for any packet. If no event is left anywhere, the rank resumes as well (wake_idle), which breaks the
  // deadlock.
  Task<> wait_for_any_event();
  // Begins a nonblocking collective, and runs it until it first waits.
  Task<> begin(AsyncProgressTask& work);
  Task<> wait(AsyncProgressTask& work);
  // Waits for a request of the collective; is called by the collective itself.
  Task<> wait(AsyncProgressTask& work, Request request);
  // Returns the number of receives with a forced match that could have matched another message.
  std::uint64_t ambiguous_matches() const { return races_.ambiguous_matches(); }
  // Returns the statistics of outcomes that depend on timing.
  RaceStatistics& races() { return races_.statistics(); }
  // Returns the earliest time at which the request that was waited for last could complete.
  const ConfigClock& ready() const { return ready_; }
  // Sets the MPI call that waits_for() reports; nullptr: none. The text must outlive the call.
  void in_call(const std::string* name) { progress_.set_call(name); }
  Task<> barrier();
  // Returns the bytes of work after which the rank yields to others.
  std::uint64_t slice_bytes() const { return slice_bytes_; }
  // Works on `bytes` in such slices, by calling `slice(offset, bytes)` for each.
  template <class Slice>
  Task<> in_slices(std::uint64_t bytes, Slice slice) {
    if (!calls_.empty()) co_await flush_calls();
    for (std::uint64_t offset = 0; offset < bytes && node_.has_memory(); offset += slice_bytes_) {
      slice(offset, std::min(slice_bytes_, bytes - offset));
      co_await sync_with_engine();
    }
  }

  // ---- for protocols, on this rank's core
  Task<> copy(const Buffer& to, std::uint64_t to_offset, const Buffer& from, std::uint64_t from_offset,
              std::uint64_t bytes);
  // Copies without yielding, in send().
  void copy_now(const Buffer& to, const Buffer& from, std::uint64_t bytes) { node_.copy(core_, to, 0, from, 0, bytes); }
  // Returns contiguous memory with the message's data: the data itself, or a packed copy that release_pack_buffer()
  // frees.
  Address pack_buffer(Message& message);
  void release_pack_buffer(Message& message);
  // Returns contiguous memory for the data of a receive; unpack() then copies it into a non-contiguous buffer.
  Address landing_buffer(RequestState& receive, std::uint64_t bytes);
  Task<> unpack(RequestState& receive, std::uint64_t bytes);
  // Completes the request, so that the rank's program resumes if it waits for it.
  void complete(RequestState*& state);
  // Completes the request, and releases this rank's record of the message; the other rank's stays.
  void finish(Message& message, RequestState*& state) {
    complete(state);
    node_state_.drop(message);
  }
  // Posts a command to the NIC. Returns its transfer to the other side of the message.
  NicTransfer transfer(Message& message);
  // Returns the library's internal buffers.
  Scratch& scratch() { return scratch_; }

  // Writes a packet into shared memory that another rank of the node polls. `line`: the cache line; 0: the next one of
  // the queue between the two ranks.
  void notify_peer(Endpoint& other, ProtocolPacket* packet, Address line = 0);
  ProtocolPacket* make_packet(Message& message, PacketKind kind);
  // Delivers a packet, which the rank finds when it polls, at ProtocolPacket::visible or later.
  void deliver(ProtocolPacket* packet);
  void push(ProtocolPacket* packet) { progress_.push(packet); }
  // Returns the receive that matches a message that arrives at `visible`; nullptr if the message is unexpected.
  RequestState* match(Message& message, const ConfigClock& visible);

  // ---- for Cluster
  // Describes what the rank waits for; empty if it does not wait.
  std::string waits_for() const { return progress_.describe_wait(); }
  bool can_be_woken() const { return progress_.can_be_woken(); }
  void wake_idle(Ps when);

 private:
  // The messages and packets between this rank and another one.
  struct Link {
    std::uint64_t sent = 0;  // messages to it
    Address lines = 0;       // cache lines that it writes and this rank polls
    std::uint64_t next_line = 0;
  };
  struct BarrierArrival {
    Endpoint& me;
    bool await_ready() const { return false; }
    void await_suspend(std::coroutine_handle<> waiting) const;
    void await_resume() const {}
  };

  // A queued call of the program.
  struct Call {
    RequestState* state = nullptr;  // nullptr: computation of `duration`
    Ps duration = 0;
  };

  Endpoint& other(int rank) { return *cluster_.ranks[static_cast<std::size_t>(rank)]; }
  RequestState& make_request(RequestState::Kind kind, const Pattern& pattern, const Buffer& buffer);
  void call(const Call& call);
  void perform(const Call& call);
  void perform_send(RequestState& state);
  void perform_receive(RequestState& state);
  void check_fits(const Message& message, const RequestState& receive) const;
  Task<> progress();
  void report_match(const RequestState& receive, const Message& message) const {
    if (receive.notify_id && on_match_) on_match_(receive.notify_id, message.from->rank_, message.tag);
  }
  Task<> resume_tasks();
  void free_request(RequestState& state);
  void read_packet_line(const ProtocolPacket& packet);
  Address next_line(int from);

  NodeState& node_state_;
  ClusterState& cluster_;
  Node& node_;
  Nic* nic_;
  int rank_, core_;
  Rank facade_;
  Scratch scratch_;
  std::unordered_map<int, Link> links_;
  MatchQueues queues_;
  RaceTracker races_{queues_};
  ProgressEngine progress_;
  const ProtocolPacket* handled_ = nullptr;
  ConfigClock ready_;
  std::vector<AsyncProgressTask*> async_tasks_;
  std::vector<Call> calls_;
  OnMatch on_match_;
  std::vector<Mark> marks_;
  TimeInCalls in_calls_;
  Ps send_, receive_, match_;
  std::uint64_t slice_bytes_;
};

}  // namespace nearfield::sim

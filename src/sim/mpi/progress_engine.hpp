// The packets that the MPI library of one rank finds when it polls, and what the rank's program waits for.
#pragma once

#include <coroutine>
#include <string>
#include <utility>

#include "sim/engine/engine.hpp"
#include "sim/engine/pool.hpp"
#include "sim/mpi/message.hpp"

namespace nearfield::sim {

class ProgressEngine {
 public:
  enum class WaitReason { none, request, message, packet, any_event, barrier };

  ProgressEngine(Engine& engine, int rank) : engine_(engine), rank_(rank) {}

  // Mark the begin and the end of a wait of the program. `pattern`: that of the awaited request or message, if it is
  // known; it must outlive the wait.
  void begin_wait(WaitReason wait, const Pattern* pattern = nullptr) { wait_ = wait, pattern_ = pattern; }
  void end_wait() {
    if (wait_ == WaitReason::any_event) idle_wakeups_ = 0;
    begin_wait(WaitReason::none);
  }
  // Sets the MPI call that describe_wait() reports; nullptr: none. The text must outlive the call.
  void set_current_call(const std::string* name) { call_ = name; }
  // Describes what the rank waits for; empty if it does not wait.
  std::string describe_wait() const;

  bool has_packet() const { return !packets_.empty(); }
  void push_packet(ProtocolPacket* packet) {
    packets_.push(packet);
    wake_sleeper();
  }
  // Is called when a message has become unexpected. If the NIC matches messages, no packet wakes a rank that probes for
  // the message.
  void notify_unexpected();
  // If no event is left on any node, wake_idle() resumes a rank that waits for any event, which breaks the deadlock.
  // can_be_woken() returns whether this rank is such a rank.
  bool can_be_woken() const { return wait_ == WaitReason::any_event && sleeper_ && idle_wakeups_ < max_idle_wakeups; }
  void wake_idle(Ps when);

  struct NextPacket {
    ProgressEngine& me;
    bool await_ready() const { return me.has_packet(); }
    void await_suspend(std::coroutine_handle<> waiting) const { me.sleeper_ = waiting; }
    ProtocolPacket* await_resume() const { return me.has_packet() ? me.packets_.pop() : nullptr; }
  };
  // Returns an awaitable for the next packet. Its result is nullptr if the rank was woken without a packet.
  NextPacket next_packet() { return {*this}; }

 private:
  static constexpr int max_idle_wakeups = 1000;  // a program with more failed polls in a row is deadlocked

  void wake_sleeper() {
    if (sleeper_) std::exchange(sleeper_, {}).resume();
  }

  Engine& engine_;
  int rank_;
  FifoList<ProtocolPacket> packets_;
  std::coroutine_handle<> sleeper_;
  WaitReason wait_ = WaitReason::none;
  const Pattern* pattern_ = nullptr;
  const std::string* call_ = nullptr;
  int idle_wakeups_ = 0;  // in a row
};

}  // namespace nearfield::sim

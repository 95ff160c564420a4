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

  // Mark the start and the end of a wait of the program. `pattern` is that of the awaited request or message, nullptr
  // if it is not known; it must outlive the wait.
  void begin_wait(WaitReason wait, const Pattern* pattern = nullptr) {
    wait_reason_ = wait, awaited_pattern_ = pattern;
  }
  void end_wait() {
    if (wait_reason_ == WaitReason::any_event) idle_wakeups_ = 0;
    begin_wait(WaitReason::none);
  }
  // Sets the MPI call that describe_wait() reports; nullptr: none. The text must outlive the call.
  void set_current_call(const std::string* name) { current_call_ = name; }
  // Describes what the rank waits for; empty if it does not wait.
  std::string describe_wait() const;

  bool has_packet() const { return !packets_.empty(); }
  void push_packet(ProtocolPacket* packet) {
    packets_.push(packet);
    wake_sleeping_rank();
  }
  // Must be called when an unexpected message has arrived. Wakes a rank that probes for the message, for which no
  // packet exists if the NIC matches messages.
  void notify_unexpected();
  // can_be_woken() returns whether the rank waits for any event. If no event is left on any node, wake_idle() resumes
  // such a rank, which breaks the deadlock.
  bool can_be_woken() const {
    return wait_reason_ == WaitReason::any_event && sleeping_coroutine_ && idle_wakeups_ < max_idle_wakeups;
  }
  void wake_idle(Ps when);

  struct NextPacket {
    ProgressEngine& progress;
    bool await_ready() const { return progress.has_packet(); }
    void await_suspend(std::coroutine_handle<> waiting) const { progress.sleeping_coroutine_ = waiting; }
    ProtocolPacket* await_resume() const { return progress.has_packet() ? progress.packets_.pop() : nullptr; }
  };
  // Returns an awaitable for the next packet. Its result is nullptr if the rank was woken without a packet.
  NextPacket next_packet() { return {*this}; }

 private:
  static constexpr int max_idle_wakeups = 1000;  // more failed polls in a row are taken for a deadlock

  void wake_sleeping_rank() {
    if (sleeping_coroutine_) std::exchange(sleeping_coroutine_, {}).resume();
  }

  Engine& engine_;
  int rank_;
  FifoList<ProtocolPacket> packets_;
  std::coroutine_handle<> sleeping_coroutine_;
  WaitReason wait_reason_ = WaitReason::none;
  const Pattern* awaited_pattern_ = nullptr;
  const std::string* current_call_ = nullptr;
  int idle_wakeups_ = 0;  // in a row
};

}  // namespace nearfield::sim

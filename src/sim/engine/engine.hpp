// The discrete-event engine of one node. Events run in the order of their times under the first NIC policy at the first
// memory speed, on one thread at a time. An event calls a function with a pointer, or resumes a coroutine.
//
// While a rank computes, its clock may run ahead of the engine. Before the rank reads what other ranks did, it awaits
// wait_until(): the engine must have reached the rank's clock.
//
// Nodes are simulated in windows of time (window_scheduler.hpp): all events from other nodes within a window are known
// before it begins. At equal times, events from other nodes come first, then the node's own, each in the order in which
// they were scheduled; so the order depends neither on where windows begin nor on the other nodes' engines.
#pragma once

#include <coroutine>
#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <stdexcept>
#include <utility>

#include "sim/engine/queue.hpp"
#include "sim/engine/time_vector.hpp"

namespace nearfield::sim {

inline constexpr Ps never = std::numeric_limits<Ps>::infinity();

class Engine {
 public:
  static constexpr std::uint64_t events_per_callback = 4096;  // events between two calls of the progress callback

  Ps now() const { return now_; }
  // Returns the end of the current or last window.
  Ps window_end() const { return window_end_; }
  std::uint64_t num_events_run() const { return num_events_run_; }
  // Returns the time of the next event; `never` if there is none.
  Ps next_event_time() const { return queue_.empty() ? never : queue_.top().time; }

  // Schedules the call `callback(argument)` at the time `when`, which must not be in the past.
  void schedule(Ps when, void (*callback)(void*), void* argument) {
    if (when < now_) throw std::logic_error("an event in the past");
    queue_.push({when, first_local_sequence + next_local_sequence_++, callback, argument});
  }
  void resume_at(Ps when, std::coroutine_handle<> coroutine) { schedule(when, &resume_coroutine, coroutine.address()); }
  // Schedules an event from another node at the time `when`. Must be called between two windows.
  void schedule_from_remote(Ps when, void (*callback)(void*), void* argument) {
    if (when < window_end_) throw std::logic_error("an event in a window that is over");
    queue_.push({when, next_remote_sequence_++, callback, argument});
  }
  void resume_from_remote(Ps when, std::coroutine_handle<> coroutine) {
    schedule_from_remote(when, &resume_coroutine, coroutine.address());
  }

  // Returns whether an event at or before `when` is scheduled, or may still arrive from another node.
  bool has_event_until(Ps when) const { return when >= window_end_ || next_event_time() <= when; }

  struct WaitUntilAwaitable {
    Engine& engine;
    Ps when;
    bool await_ready() const { return !engine.must_wait(when); }
    void await_suspend(std::coroutine_handle<> waiting) const { engine.resume_at(when, waiting); }
    void await_resume() const {}
  };
  // Returns an awaitable that resumes when all events before `when` have run.
  WaitUntilAwaitable wait_until(Ps when) { return {*this, when}; }

  // Sets a function that is called after every `events_per_callback` events. If the function throws, the window ends.
  void set_progress_callback(std::function<void()> call) { progress_callback_ = std::move(call); }

  // Resets the time to 0. No event may be left.
  void reset_time() { now_ = window_end_ = 0; }

  // Runs all events before `end`. Stops after an event that calls record_failure().
  void run_until(Ps end) {
    window_end_ = end;
    while (next_event_time() < window_end_ && !failure_) {
      const Event event = queue_.pop();
      now_ = event.time;
      if (++num_events_run_ % events_per_callback == 0 && progress_callback_) progress_callback_();
      event.callback(event.argument);
    }
  }

  // Ends the window after the current event. Only for a cluster of one node.
  void end_window() { window_end_ = now_; }

  // Must be called by an event that fails. The first exception is stored.
  void record_failure(std::exception_ptr failure) {
    if (!failure_) failure_ = std::move(failure);
  }
  const std::exception_ptr& failure() const { return failure_; }

 private:
  // Returns whether a rank must wait before its clock passes `when`, since another event may come first. Otherwise sets
  // the time to `when`.
  bool must_wait(Ps when) {
    if (when < now_) return false;
    if (has_event_until(when)) return true;
    now_ = when;
    return false;
  }
  static void resume_coroutine(void* coroutine) { std::coroutine_handle<>::from_address(coroutine).resume(); }

  static constexpr std::uint64_t first_local_sequence = std::uint64_t{1} << 63;
  EventHeap queue_;
  Ps now_ = 0, window_end_ = 0;
  std::uint64_t next_local_sequence_ = 0, next_remote_sequence_ = 0;
  std::uint64_t num_events_run_ = 0;
  std::exception_ptr failure_;
  std::function<void()> progress_callback_;
};

}  // namespace nearfield::sim

// Runs what is to happen on one node in the order of time (by the first variant at the first memory speed), from one
// thread at a time. What happens is either a function with a pointer, or a coroutine that goes on.
//
// A rank that computes may be ahead of the engine on its own clock; before it looks at what others did
// it waits until() the engine has got there.
//
// Nodes go on by windows of time (windows.hpp): what other nodes do to this one within a window is known before it
// begins. Of events at the same time those from outside come first, then this node's own, each in the order in which
// they were asked for; so what happens depends neither on where windows begin nor on the other nodes' engines.
#pragma once

#include <coroutine>
#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <stdexcept>
#include <utility>

#include "sim/engine/queue.hpp"
#include "sim/times.hpp"

namespace nearfield::sim {

inline constexpr Ps never = std::numeric_limits<Ps>::infinity();

class Engine {
 public:
  static constexpr std::uint64_t often = 4096;  // events between two questions whether to go on

  Ps now() const { return now_; }
  // Returns the end of the last window.
  Ps end() const { return end_; }
  std::uint64_t events() const { return events_; }
  // Returns when the next event is; `never` if there is none.
  Ps next() const { return queue_.empty() ? never : queue_.top().at; }

  // `act(what)` happens at `when`, which must not be past.
  void at(Ps when, void (*act)(void*), void* what) {
    if (when < now_) throw std::logic_error("an event in the past");
    queue_.push({when, first_own + own_++, act, what});
  }
  void resume_at(Ps when, std::coroutine_handle<> coroutine) { at(when, &resume, coroutine.address()); }
  // The same, asked for from outside the node, between two windows.
  void at_from_outside(Ps when, void (*act)(void*), void* what) {
    if (when < end_) throw std::logic_error("an event in a window that is over");
    queue_.push({when, outside_++, act, what});
  }
  void resume_from_outside(Ps when, std::coroutine_handle<> coroutine) {
    at_from_outside(when, &resume, coroutine.address());
  }

  // Returns whether anything is, or might be, to happen before or at `when`.
  bool anything_until(Ps when) const { return when >= end_ || next() <= when; }

  struct Until {
    Engine& engine;
    Ps when;
    bool await_ready() const { return !engine.catch_up(when); }
    void await_suspend(std::coroutine_handle<> waiting) const { engine.resume_at(when, waiting); }
    void await_resume() const {}
  };
  // Returns an awaitable that goes on when everything before `when` has happened.
  Until until(Ps when) { return {*this, when}; }

  // Sets a function to call in a long window, too; its exceptions end it.
  void now_and_then(std::function<void()> call) { now_and_then_ = std::move(call); }

  // Begins again at 0, when no event is left.
  void restart() { now_ = end_ = 0; }

  // Runs what happens before `end`, until something fails.
  void run_until(Ps end) {
    end_ = end;
    while (next() < end_ && !failure_) {
      const Event event = queue_.pop();
      now_ = event.at;
      if (++events_ % often == 0 && now_and_then_) now_and_then_();
      event.act(event.what);
    }
  }

  // Ends the window after this event. Only for a node without others.
  void end_window() { end_ = now_; }

  // Is called by what fails.
  void fail(std::exception_ptr failure) {
    if (!failure_) failure_ = std::move(failure);
  }
  const std::exception_ptr& failure() const { return failure_; }

 private:
  // Returns true if something else may come first; otherwise sets the time to `when`.
  bool catch_up(Ps when) {
    if (when < now_) return false;
    if (anything_until(when)) return true;
    now_ = when;
    return false;
  }
  static void resume(void* coroutine) { std::coroutine_handle<>::from_address(coroutine).resume(); }

  static constexpr std::uint64_t first_own = std::uint64_t{1} << 63;
  Queue queue_;
  Ps now_ = 0, end_ = 0;  // of the last window
  std::uint64_t own_ = 0, outside_ = 0;
  std::uint64_t events_ = 0;
  std::exception_ptr failure_;
  std::function<void()> now_and_then_;
};

}  // namespace nearfield::sim

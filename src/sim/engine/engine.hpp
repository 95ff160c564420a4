// Runs what is to happen in the order of time (by the first variant at the first memory speed), from one thread. What
// happens is either a function with a pointer, or a coroutine that goes on.
//
// A rank that computes may be ahead of the engine on its own clock; before it looks at what others did
// it waits until() the engine has got there.
#pragma once

#include <coroutine>
#include <cstdint>
#include <exception>
#include <functional>
#include <stdexcept>
#include <utility>

#include "sim/engine/queue.hpp"
#include "sim/times.hpp"

namespace nearfield::sim {

class Engine {
 public:
  Ps now() const { return now_; }
  std::uint64_t events() const { return events_; }

  // `act(what)` happens at `when`, which must not be past.
  void at(Ps when, void (*act)(void*), void* what) {
    if (when < now_) throw std::logic_error("an event in the past");
    queue_.push({when, sequence_++, act, what});
  }
  void resume_at(Ps when, std::coroutine_handle<> coroutine) { at(when, &resume, coroutine.address()); }

  // Returns whether anything is to happen before or at `when`.
  bool anything_until(Ps when) const { return !queue_.empty() && queue_.top().at <= when; }

  struct Until {
    Engine& engine;
    Ps when;
    bool await_ready() const { return !engine.catch_up(when); }
    void await_suspend(std::coroutine_handle<> waiting) const { engine.resume_at(when, waiting); }
    void await_resume() const {}
  };
  // Returns an awaitable that goes on when everything before `when` has happened.
  Until until(Ps when) { return {*this, when}; }

  // Sets a function to call every few thousand events; its exceptions end run().
  void now_and_then(std::function<void()> call) { now_and_then_ = std::move(call); }

  // Runs until no event is left, or one has failed.
  void run() {
    while (!queue_.empty() && !failure_) {
      const Event event = queue_.pop();
      now_ = event.at;
      if (++events_ % often == 0 && now_and_then_) now_and_then_();
      event.act(event.what);
    }
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  }

  // Is called by an event that fails: run() ends and throws the failure.
  void fail(std::exception_ptr failure) {
    if (!failure_) failure_ = std::move(failure);
  }

 private:
  // Returns true if something else comes first; otherwise sets the time to `when`.
  bool catch_up(Ps when) {
    if (when < now_) return false;
    if (anything_until(when)) return true;
    now_ = when;
    return false;
  }
  static void resume(void* coroutine) { std::coroutine_handle<>::from_address(coroutine).resume(); }

  static constexpr std::uint64_t often = 4096;
  Queue queue_;
  Ps now_ = 0;
  std::uint64_t sequence_ = 0;
  std::uint64_t events_ = 0;
  std::exception_ptr failure_;
  std::function<void()> now_and_then_;
};

}  // namespace nearfield::sim

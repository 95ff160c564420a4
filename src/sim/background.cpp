// Work beside the program (Endpoint). It and the program are two coroutines of one core, of which one goes on at a time:
// the program lets the work go on when it waits for something itself, and goes on when the work waits.
#include <algorithm>

#include "sim/endpoint.hpp"

namespace nearfield::sim {

namespace {

// Goes on with the work until it waits or is over.
struct GoOnInside {
  Background& work;
  bool await_ready() const { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> outside) const {
    work.outside = outside;
    return std::exchange(work.inside, {});
  }
  void await_resume() const {}
};

struct GoOnOutside {
  Background& work;
  bool await_ready() const { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> inside) const {
    work.inside = inside;
    return std::exchange(work.outside, {});
  }
  void await_resume() const {}
};

Task<> until_over(Background& background, Task<> work) {
  try {
    co_await work;
  } catch (...) {
    background.failure = std::current_exception();
  }
  background.over = true;
  co_await GoOnOutside{background};
}

}  // namespace

Task<> Endpoint::begin(Background& work) {
  if (!calls_.empty()) co_await catch_up();
  work.work = until_over(work, std::move(work.work));
  work.inside = work.work.handle();
  background_.push_back(&work);
  co_await carry_on();
}

Task<> Endpoint::wait(Background& work) {
  if (!calls_.empty()) co_await catch_up();
  const Clock before = now();
  waiting_for_ = work.waits_for;
  while (!work.over) {
    co_await go_on();
    waiting_for_ = work.waits_for;
  }
  waiting_for_ = nullptr;
  in_calls_.waiting += now() - before;
}

Task<> Endpoint::wait(Background& work, Request request) {
  Operation* const operation = request.operation;
  if (!operation || operation->serial != request.serial) co_return;
  work.waits_for = operation;
  if (!operation->done) co_await GoOnOutside{work};
  work.waits_for = nullptr;
  release(*operation);
}

// Does what can be done of the work beside the program.
Task<> Endpoint::carry_on() {
  const auto ready = [](const Background* one) { return !one->over && (!one->waits_for || one->waits_for->done); };
  while (true) {
    const auto next = std::ranges::find_if(background_, ready);
    if (next == background_.end()) break;
    Background& work = **next;
    co_await GoOnInside{work};
    if (work.over) std::erase(background_, &work);
    if (work.failure) std::rethrow_exception(std::exchange(work.failure, {}));
  }
  if (!calls_.empty()) co_await catch_up();
}

}  // namespace nearfield::sim

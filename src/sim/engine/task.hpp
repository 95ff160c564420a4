// A lazy coroutine: it starts when it is awaited, and resumes its caller when it has finished. Exceptions propagate to
// the caller. Destroying a Task also destroys the tasks that it awaits, so a run can be abandoned at any point.
//
// Arguments that a coroutine takes by reference must outlive the coroutine. So a coroutine must be awaited in the
// expression that calls it, where temporaries still exist.
#pragma once

#include <coroutine>
#include <cstddef>
#include <exception>
#include <optional>
#include <utility>

#include "sim/engine/frames.hpp"

namespace nearfield::sim {

template <class T = void>
class Task;

namespace detail {

struct PromiseBase {
  std::coroutine_handle<> caller = std::noop_coroutine();
  std::exception_ptr failure;

  struct ResumeCaller {
    bool await_ready() const noexcept { return false; }
    template <class Promise>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> finished) const noexcept {
      return finished.promise().caller;
    }
    void await_resume() const noexcept {}
  };
  std::suspend_always initial_suspend() const noexcept { return {}; }
  ResumeCaller final_suspend() const noexcept { return {}; }
  void unhandled_exception() { failure = std::current_exception(); }

  static void* operator new(std::size_t bytes) { return CoroutineFrames::acquire(bytes); }
  static void operator delete(void* frame, std::size_t bytes) { CoroutineFrames::release(frame, bytes); }
};

template <class T>
struct Promise : PromiseBase {
  std::optional<T> value;
  Task<T> get_return_object();
  template <class U>
  void return_value(U&& result) {
    value.emplace(std::forward<U>(result));
  }
  T take() { return std::move(*value); }
};

template <>
struct Promise<void> : PromiseBase {
  Task<void> get_return_object();
  void return_void() const noexcept {}
  void take() const noexcept {}
};

}  // namespace detail

template <class T>
class [[nodiscard]] Task {
 public:
  using promise_type = detail::Promise<T>;
  using Handle = std::coroutine_handle<promise_type>;

  Task() = default;
  explicit Task(Handle handle) : handle_(handle) {}
  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  Task& operator=(Task&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Task() {
    if (handle_) handle_.destroy();
  }

  // Returns the handle, for code that starts a Task from outside any coroutine.
  std::coroutine_handle<> handle() const { return handle_; }
  bool done() const { return !handle_ || handle_.done(); }

  struct Awaiter {
    Handle handle;
    bool await_ready() const noexcept { return false; }
    std::coroutine_handle<> await_suspend(std::coroutine_handle<> caller) const noexcept {
      handle.promise().caller = caller;
      return handle;
    }
    T await_resume() const {
      if (handle.promise().failure) std::rethrow_exception(handle.promise().failure);
      return handle.promise().take();
    }
  };
  Awaiter operator co_await() const noexcept { return {handle_}; }

 private:
  Handle handle_;
};

namespace detail {
template <class T>
Task<T> Promise<T>::get_return_object() {
  return Task<T>(std::coroutine_handle<Promise<T>>::from_promise(*this));
}
inline Task<void> Promise<void>::get_return_object() {
  return Task<void>(std::coroutine_handle<Promise<void>>::from_promise(*this));
}
}  // namespace detail

}  // namespace nearfield::sim

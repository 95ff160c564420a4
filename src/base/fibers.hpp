// Runs functions as fibers (stackful coroutines) of one thread. A fiber runs until it calls suspend(), so the caller of
// resume() determines the order of execution.
#pragma once

#include <ucontext.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <new>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace nearfield {

class Fibers {
 public:
  explicit Fibers(int num_fibers) : fibers_(static_cast<std::size_t>(num_fibers)) {
    for (Fiber& fiber : fibers_) fiber.stack.reset(::operator new(stack_bytes, stack_alignment));
  }

  // Prepares a fiber. A fiber that was started before must have ended. `body` must not throw.
  void start(int index, std::function<void()> body) {
    Fiber& fiber = fiber_at(index);
    fiber.body = std::move(body);
    fiber.has_ended = false;
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = stack_bytes;
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, run_body, 0);
  }

  // Runs a fiber until it suspends itself or ends.
  void resume(int index) {
    running_fiber_ = &fiber_at(index);
    scheduling_fibers_ = this;
    void* fake_stack = nullptr;
    begin_stack_switch(&fake_stack, running_fiber_->stack.get(), stack_bytes);
    swapcontext(&scheduler_context_, &running_fiber_->context);
    finish_stack_switch(fake_stack, nullptr, nullptr);
  }

  // Called by the running fiber: suspends it and returns to the caller of resume().
  void suspend() {
    void* fake_stack = nullptr;
    begin_stack_switch(&fake_stack, scheduler_stack_, scheduler_stack_bytes_);
    swapcontext(&running_fiber_->context, &scheduler_context_);
    finish_stack_switch(fake_stack, &scheduler_stack_, &scheduler_stack_bytes_);
  }

  bool has_ended(int index) const { return fibers_[static_cast<std::size_t>(index)].has_ended; }

 private:
  // Stacks begin at a page, so that the pages of local variables, whose accesses the simulator records, do not depend on
  // where the C++ library places a stack.
  static constexpr std::align_val_t stack_alignment{4096};
  struct FreeStack {
    void operator()(void* stack) const { ::operator delete(stack, stack_alignment); }
  };
  struct Fiber {
    ucontext_t context;
    std::unique_ptr<void, FreeStack> stack;
    std::function<void()> body;
    bool has_ended = true;
  };
  static constexpr std::size_t stack_bytes = 256 << 10;

  Fiber& fiber_at(int index) { return fibers_[static_cast<std::size_t>(index)]; }

  static void run_body() {
    Fibers& fibers = *scheduling_fibers_;
    finish_stack_switch(nullptr, &fibers.scheduler_stack_, &fibers.scheduler_stack_bytes_);
    fibers.running_fiber_->body();
    fibers.running_fiber_->has_ended = true;
    begin_stack_switch(nullptr, fibers.scheduler_stack_, fibers.scheduler_stack_bytes_);
    setcontext(&fibers.scheduler_context_);
  }

  // Report a switch of stacks to AddressSanitizer.
  static void begin_stack_switch([[maybe_unused]] void** fake_stack, [[maybe_unused]] const void* next,
                                 [[maybe_unused]] std::size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(fake_stack, next, bytes);
#endif
  }
  static void finish_stack_switch([[maybe_unused]] void* fake_stack, [[maybe_unused]] const void** previous,
                                  [[maybe_unused]] std::size_t* bytes) {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(fake_stack, previous, bytes);
#endif
  }

  static inline thread_local Fibers* scheduling_fibers_ = nullptr;
  std::vector<Fiber> fibers_;
  Fiber* running_fiber_ = nullptr;
  ucontext_t scheduler_context_;
  const void* scheduler_stack_ = nullptr;
  std::size_t scheduler_stack_bytes_ = 0;
};

}  // namespace nearfield

// Asynchronous progress of nonblocking collectives (Endpoint). A collective and the rank's program are two coroutines
// on one core that take turns: while the program waits in an MPI call, it resumes the collective; when the collective
// waits, it resumes the program.
#include <algorithm>

#include "sim/mpi/endpoint.hpp"

namespace nearfield::sim {

namespace {

// An awaitable of the program: resumes the collective until the collective waits or completes.
struct ResumeTask {
  AsyncProgressTask& work;
  bool await_ready() const { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> program) const {
    work.suspended_program = program;
    return std::exchange(work.suspended_collective, {});
  }
  void await_resume() const {}
};

// An awaitable of the collective: resumes the program.
struct ResumeProgram {
  AsyncProgressTask& work;
  bool await_ready() const { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> task) const {
    work.suspended_collective = task;
    return std::exchange(work.suspended_program, {});
  }
  void await_resume() const {}
};

Task<> run_collective_to_completion(AsyncProgressTask& task, Task<> work) {
  try {
    co_await work;
  } catch (...) {
    task.failure = std::current_exception();
  }
  task.is_over = true;
  co_await ResumeProgram{task};
}

}  // namespace

Task<> Endpoint::begin_collective(AsyncProgressTask& work) {
  if (!queued_calls_.empty()) co_await flush_calls();
  work.work = run_collective_to_completion(work, std::move(work.work));
  work.suspended_collective = work.work.handle();
  async_tasks_.push_back(&work);
  co_await resume_tasks();
}

Task<> Endpoint::wait(AsyncProgressTask& work) {
  if (!queued_calls_.empty()) co_await flush_calls();
  const ConfigClock before = now();
  while (!work.is_over) {
    progress_.begin_wait(ProgressEngine::WaitReason::request, work.awaited_request);
    co_await handle_next_packet();
  }
  progress_.end_wait();
  time_in_calls_.wait_time += now() - before;
}

Task<> Endpoint::wait(AsyncProgressTask& work, Request request) {
  RequestState* const state = request.state;
  if (!state || state->serial != request.serial) co_return;
  work.awaited_request = state;
  if (!state->is_done) co_await ResumeProgram{work};
  work.awaited_request = nullptr;
  free_request(*state);
}

// Resumes each collective whose awaited request is complete, until the collective waits again.
Task<> Endpoint::resume_tasks() {
  const auto ready = [](const AsyncProgressTask* one) {
    return !one->is_over && (!one->awaited_request || one->awaited_request->is_done);
  };
  while (true) {
    const auto next = std::ranges::find_if(async_tasks_, ready);
    if (next == async_tasks_.end()) break;
    AsyncProgressTask& work = **next;
    co_await ResumeTask{work};
    if (work.is_over) std::erase(async_tasks_, &work);
    if (work.failure) std::rethrow_exception(std::exchange(work.failure, {}));
  }
  if (!queued_calls_.empty()) co_await flush_calls();
}

}  // namespace nearfield::sim

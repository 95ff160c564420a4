// Asynchronous progress of nonblocking collectives (Endpoint). A collective and the rank's program are two coroutines
// on one core, of which one runs at a time: while the program waits in an MPI call, it resumes the collective; when the
// collective waits, it resumes the program.
#include <algorithm>

#include "sim/mpi/endpoint.hpp"

namespace nearfield::sim {

namespace {

// An awaitable of the program: resumes the collective until the collective waits or completes.
struct ResumeTask {
  AsyncProgressTask& work;
  bool await_ready() const { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> program) const {
    work.program = program;
    return std::exchange(work.task, {});
  }
  void await_resume() const {}
};

// An awaitable of the collective: resumes the program.
struct ResumeProgram {
  AsyncProgressTask& work;
  bool await_ready() const { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> task) const {
    work.task = task;
    return std::exchange(work.program, {});
  }
  void await_resume() const {}
};

Task<> run_to_completion(AsyncProgressTask& task, Task<> work) {
  try {
    co_await work;
  } catch (...) {
    task.failure = std::current_exception();
  }
  task.over = true;
  co_await ResumeProgram{task};
}

}  // namespace

Task<> Endpoint::begin_collective(AsyncProgressTask& work) {
  if (!calls_.empty()) co_await flush_calls();
  work.work = run_to_completion(work, std::move(work.work));
  work.task = work.work.handle();
  async_tasks_.push_back(&work);
  co_await resume_tasks();
}

Task<> Endpoint::wait(AsyncProgressTask& work) {
  if (!calls_.empty()) co_await flush_calls();
  const ConfigClock before = now();
  while (!work.over) {
    progress_.begin_wait(ProgressEngine::WaitReason::request, work.waits_for);
    co_await handle_next_packet();
  }
  progress_.end_wait();
  in_calls_.waiting += now() - before;
}

Task<> Endpoint::wait(AsyncProgressTask& work, Request request) {
  RequestState* const state = request.state;
  if (!state || state->serial != request.serial) co_return;
  work.waits_for = state;
  if (!state->done) co_await ResumeProgram{work};
  work.waits_for = nullptr;
  free_request(*state);
}

// Resumes each collective whose awaited request is complete, until the collective waits again.
Task<> Endpoint::resume_tasks() {
  const auto ready = [](const AsyncProgressTask* one) {
    return !one->over && (!one->waits_for || one->waits_for->done);
  };
  while (true) {
    const auto next = std::ranges::find_if(async_tasks_, ready);
    if (next == async_tasks_.end()) break;
    AsyncProgressTask& work = **next;
    co_await ResumeTask{work};
    if (work.over) std::erase(async_tasks_, &work);
    if (work.failure) std::rethrow_exception(std::exchange(work.failure, {}));
  }
  if (!calls_.empty()) co_await flush_calls();
}

}  // namespace nearfield::sim

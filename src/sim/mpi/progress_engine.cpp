#include "sim/mpi/progress_engine.hpp"

namespace nearfield::sim {

void ProgressEngine::notify_unexpected() {
  if (!sleeping_coroutine_ || (wait_reason_ != WaitReason::message && wait_reason_ != WaitReason::any_event)) return;
  const auto wake = [](void* prefix) { static_cast<ProgressEngine*>(prefix)->wake_sleeping_rank(); };
  engine_.schedule(engine_.now(), wake, this);
}

void ProgressEngine::wake_idle(Ps when) {
  ++idle_wakeups_;
  wait_reason_ = WaitReason::none;
  engine_.resume_at(when, std::exchange(sleeping_coroutine_, {}));
}

std::string ProgressEngine::describe_wait() const {
  const std::string prefix =
      "rank " + std::to_string(rank_) + " waits " + (current_call_ ? "in " + *current_call_ + " " : "") + "for ";
  if (wait_reason_ == WaitReason::packet) return prefix + "one of several requests";
  if (wait_reason_ == WaitReason::any_event) return prefix + "any event, while it polls";
  if (wait_reason_ == WaitReason::barrier) return prefix + "all ranks at the barrier";
  if (!awaited_pattern_) return "";
  const std::string peer =
      awaited_pattern_->peer == any_rank ? "any rank" : "rank " + std::to_string(awaited_pattern_->peer);
  const std::string tag = awaited_pattern_->tag == any_tag ? "" : " with tag " + std::to_string(awaited_pattern_->tag);
  if (wait_reason_ == WaitReason::message) return prefix + "a message from " + peer + tag;
  const auto& request = static_cast<const RequestState&>(*awaited_pattern_);
  const std::string bytes = std::to_string(request.buffer.bytes()) + " bytes";
  if (request.direction == RequestState::Direction::send) return prefix + peer + " to receive " + bytes + tag;
  return prefix + bytes + " from " + peer + tag;
}

}  // namespace nearfield::sim

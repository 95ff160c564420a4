#include "sim/mpi/progress_engine.hpp"

namespace nearfield::sim {

void ProgressEngine::notify_unexpected() {
  if (!sleeper_ || (wait_ != WaitReason::message && wait_ != WaitReason::any_event)) return;
  const auto act = [](void* me) { static_cast<ProgressEngine*>(me)->wake_sleeper(); };
  engine_.schedule(engine_.now(), act, this);
}

void ProgressEngine::wake_idle(Ps when) {
  ++idle_wakeups_;
  wait_ = WaitReason::none;
  engine_.resume_at(when, std::exchange(sleeper_, {}));
}

std::string ProgressEngine::describe_wait() const {
  const std::string me = "rank " + std::to_string(rank_) + " waits " + (call_ ? "in " + *call_ + " " : "") + "for ";
  if (wait_ == WaitReason::packet) return me + "one of several requests";
  if (wait_ == WaitReason::any_event) return me + "any event, while it polls";
  if (wait_ == WaitReason::barrier) return me + "all ranks at the barrier";
  if (!pattern_) return "";
  const std::string peer = pattern_->peer == any_rank ? "any rank" : "rank " + std::to_string(pattern_->peer);
  const std::string tag = pattern_->tag == any_tag ? "" : " with tag " + std::to_string(pattern_->tag);
  if (wait_ == WaitReason::message) return me + "a message from " + peer + tag;
  const auto& request = static_cast<const RequestState&>(*pattern_);
  const std::string bytes = std::to_string(request.buffer.bytes()) + " bytes";
  if (request.direction == RequestState::Direction::send) return me + peer + " to receive " + bytes + tag;
  return me + bytes + " from " + peer + tag;
}

}  // namespace nearfield::sim

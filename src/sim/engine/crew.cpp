#include "sim/engine/crew.hpp"

#include <system_error>

namespace nearfield::sim {

Crew::Crew(int threads) : shares_(static_cast<std::size_t>(threads)) {
  members_.reserve(shares_.size());
  try {
    for (std::size_t me = 1; me < shares_.size(); ++me) members_.emplace_back([this, me] { member(me); });
  } catch (const std::system_error&) {  // those that there are will do
  }
}

Crew::~Crew() {
  over_ = true;
  ++round_;
  round_.notify_all();
  for (std::thread& member : members_) member.join();
}

void Crew::each(std::size_t count, const std::function<void(std::size_t)>& work) {
  const auto threads = static_cast<std::size_t>(size());
  for (std::size_t t = 0; t < threads; ++t) {
    shares_[t].next = t * count / threads;
    shares_[t].end = (t + 1) * count / threads;
  }
  work_ = &work;
  open_ = true;
  ++round_;
  round_.notify_all();
  take_part(0);
  // Who comes inside from now on finds it closed; who was there before is waited for.
  open_ = false;
  for (int inside = inside_; inside > 0; inside = inside_) inside_.wait(inside);
}

void Crew::member(std::size_t me) {
  for (int seen = 0; !over_;) {
    round_.wait(seen);
    seen = round_;
    ++inside_;
    if (open_) take_part(me);
    if (--inside_ == 0) inside_.notify_one();
  }
}

void Crew::take_part(std::size_t me) {
  const auto threads = static_cast<std::size_t>(size());
  for (std::size_t t = 0; t < threads; ++t) {
    Share& share = shares_[(me + t) % threads];
    for (std::size_t next; (next = share.next++) < share.end;) (*work_)(next);
  }
}

}  // namespace nearfield::sim

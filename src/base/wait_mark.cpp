#include "base/wait_mark.hpp"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>

#include "base/node_watch.hpp"

namespace nearfield {
namespace {

// Returns the state of a mark. If the mark cannot be read, returns 0, which means that no thread waits.
std::uint64_t read_state(const WaitMarkLocation& mark_location) {
  if (mark_location.process == getpid())
    return reinterpret_cast<const WaitMark*>(mark_location.address)->state.load(std::memory_order_relaxed);
  static_assert(sizeof(WaitMark) == 2 * sizeof(std::uint64_t));
  std::uint64_t words[2] = {};
  const iovec local{words, sizeof words}, remote{reinterpret_cast<void*>(mark_location.address), sizeof words};
  const bool is_read = process_vm_readv(mark_location.process, &local, 1, &remote, 1, 0) == sizeof words;
  return is_read && words[0] == mark_location.secret ? words[1] : 0;
}

}  // namespace

WaitObserver::WaitObserver(const std::vector<WaitMarkLocation>& ranks) {
  for (const WaitMarkLocation& mark_location : ranks) ranks_.push_back({mark_location});
}

int WaitObserver::find_waiting_rank(double since_s, double timeout_s) {
  const double now_s = monotonic_s();
  int waiting_rank = -1;
  for (ObservedRank& rank : ranks_) {
    const std::uint64_t state = read_state(rank.mark_location);
    if (state != rank.state) rank.unchanged_since_s = now_s;
    rank.state = state;
    if (state >= WaitMark::one_waiting_thread && waiting_rank < 0 &&
        now_s - std::max(since_s, rank.unchanged_since_s) >= timeout_s)
      waiting_rank = rank.mark_location.rank;
  }
  return waiting_rank;
}

}  // namespace nearfield

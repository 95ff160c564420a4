#include "base/wait_mark.hpp"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>

#include "base/node_watch.hpp"

namespace nearfield {
namespace {

// Returns the state of a mark; 0, as if the rank waited for nothing, if the mark cannot be read.
std::uint64_t read_state(const MarkPlace& place) {
  if (place.process == getpid())
    return reinterpret_cast<const WaitMark*>(place.address)->state.load(std::memory_order_relaxed);
  static_assert(sizeof(WaitMark) == 2 * sizeof(std::uint64_t));
  std::uint64_t words[2] = {};
  const iovec local{words, sizeof words}, remote{reinterpret_cast<void*>(place.address), sizeof words};
  const bool is_read = process_vm_readv(place.process, &local, 1, &remote, 1, 0) == sizeof words;
  return is_read && words[0] == place.secret ? words[1] : 0;
}

}  // namespace

WaitObserver::WaitObserver(const std::vector<MarkPlace>& ranks) {
  for (const MarkPlace& place : ranks) ranks_.push_back({place});
}

int WaitObserver::find_waiting_rank(double since_s, double patience_s) {
  const double now_s = monotonic_s();
  int found = -1;
  for (Rank& rank : ranks_) {
    const std::uint64_t state = read_state(rank.place);
    if (state != rank.state) rank.unchanged_since_s = now_s;
    rank.state = state;
    if (state >= WaitMark::one_inside && found < 0 && now_s - std::max(since_s, rank.unchanged_since_s) >= patience_s)
      found = rank.place.rank;
  }
  return found;
}

}  // namespace nearfield

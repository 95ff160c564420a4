// The memory of the ranks of a checked collective, and the order of all accesses to it that the protocol guarantees.
//
// All ranks are fibers of one process. Each rank has a vector clock. Each release store of a counter is stored with the
// clock of the rank that made it, and a wait joins the clock of the first store that suffices. All accesses to what
// ranks share, their boxes and the buffers of their programs, are stored as ranges of bytes with the clock's entry of
// the rank; two accesses that conflict and are not ordered are a race. Memory that is neither in a box nor in a buffer
// of a program (a stack, a temporary buffer) must be accessed by one rank only, so it is not recorded.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/fibers.hpp"
#include "collectives/exchange.hpp"

namespace nearfield::collectives {

inline constexpr int max_checked_ranks = 5;
using VectorClock = std::array<std::uint32_t, max_checked_ranks>;

// The mistakes that the port makes if a test says so.
enum class Bug {
  none,
  skip_wait,           // of one reason
  skip_one_wait,       // the one with number `which` of a rank
  wait_for_less,       // for one number less, at the same counter, for one reason
  reuse_after_entry,   // waits for reuse until the others have entered the last operation that used a line, not left it
  reuse_too_early,     // lines and slots are reused after one operation less than the waits are made for
  delay_place,         // until after the publish: where the data are
  delay_data,          // until after the publish: the last part of the data
  publish_less,        // all counters, by one
  claim_next_reading,  // `read` is published with the number of the next operation
  finish_early,        // `read` is published when the rank enters an operation
  lose_publish,        // the one with number `which` of a rank
  corrupt_copy,        // of one byte of what a rank reads from a box
  claim_owner_waits,   // always
};
struct Injection {
  Bug bug = Bug::none;
  int rank = -1;  // -1: all ranks
  int which = 0;
  WaitReason reason = WaitReason::reuse;
};

struct Problem {
  enum Kind { race, deadlock, wrong_value, broken_premise } kind;
  std::string text;
};
struct Abandoned {};  // thrown through the ranks of a run that has found a problem

// The buffers with which a program sends and receives.
struct Buffers {
  static constexpr std::size_t words = 3200;
  alignas(cache_line_bytes) std::uint64_t send[words], receive[words];
};

// An access by a rank. Bytes are numbered through all areas of all ranks: see CheckedNode::locate().
struct Access {
  std::uint64_t begin, end;
  std::uint32_t clock;  // the rank's own entry
  std::int32_t rank;
  bool is_write;
};

// A release store of a counter.
struct Store {
  int counter;
  std::uint64_t number;
  VectorClock clock;
};

inline bool is_known(const VectorClock& clock, const VectorClock& by) {
  for (std::size_t i = 0; i < clock.size(); ++i)
    if (clock[i] > by[i]) return false;
  return true;
}
inline void join(VectorClock& into, const VectorClock& clock) {
  for (std::size_t i = 0; i < clock.size(); ++i) into[i] = std::max(into[i], clock[i]);
}

// The order of all that has happened. It can be copied, to go on from there again.
template <std::uint64_t depth>
struct Order {
  static constexpr std::size_t counters = max_checked_ranks * (depth + 1);  // a rank's: one for each line, and `read`
  std::array<VectorClock, max_checked_ranks> clocks;
  std::vector<Access> accesses;
  std::vector<Store> stores;
  std::array<std::uint64_t, max_checked_ranks> entered;  // the last operation that each rank has entered
  std::array<std::uint64_t, max_checked_ranks>
      offered;  // as Exchange::last_operation_in_private_memory_, from what the port sees
  std::array<std::uint64_t, counters> last_published;  // what the protocol has published
  // By owner and reader: the last operation in which the reader counted on the owner to wait for it, and the last one
  // whose reading the owner has waited for. The last operation in which a rank did anything else after it had posted.
  std::array<std::array<std::uint64_t, max_checked_ranks>, max_checked_ranks> claimed, released;
  std::array<std::uint64_t, max_checked_ranks> acted_in;

  bool is_known_to_all(int rank, std::uint32_t clock, int ranks) const {
    for (int i = 0; i < ranks; ++i)
      if (clocks[static_cast<std::size_t>(i)][static_cast<std::size_t>(rank)] < clock) return false;
    return true;
  }
  bool is_known_to_all(const VectorClock& clock, int ranks) const {
    for (int i = 0; i < ranks; ++i)
      if (!is_known(clock, clocks[static_cast<std::size_t>(i)])) return false;
    return true;
  }

  // Removes what cannot be part of a race or change a clock any more: accesses that all ranks know; and stores whose
  // clocks all ranks know, but the last of each counter, since a wait that would find an earlier one joins as little.
  void forget_what_all_know(int ranks) {
    std::erase_if(accesses, [&](const Access& a) { return is_known_to_all(a.rank, a.clock, ranks); });
    std::array<std::uint64_t, counters> last_known{};
    for (const Store& store : stores)
      if (is_known_to_all(store.clock, ranks)) last_known[static_cast<std::size_t>(store.counter)] = store.number;
    std::erase_if(stores, [&](const Store& s) { return s.number < last_known[static_cast<std::size_t>(s.counter)]; });
  }
};

// The ranks' memory, and the order of what they have done.
template <std::uint64_t depth>
class CheckedNode {
 public:
  using Box = BasicBox<depth>;
  static constexpr int areas = 2 * static_cast<int>(depth) + 2, send_area = areas - 2, read_counter = depth;

  CheckedNode(int ranks, Fibers& fibers) : ranks_(ranks), fibers_(fibers) {
    for (int i = 0; i < ranks; ++i) {
      boxes_.push_back(std::make_unique<Box>());
      pointers_.push_back(boxes_.back().get());
      buffers_.push_back(std::make_unique<Buffers>());
    }
  }

  int ranks() const { return ranks_; }
  Box* const* boxes() const { return pointers_.data(); }
  Box& box(int rank) { return *boxes_[static_cast<std::size_t>(rank)]; }
  Buffers& buffers(int rank) { return *buffers_[static_cast<std::size_t>(rank)]; }
  VectorClock& clock(int rank) { return order.clocks[static_cast<std::size_t>(rank)]; }

  // Forgets all that has happened.
  void reset() {
    order = {};
    last_barrier_across = 0;
    for (int i = 0; i < ranks_; ++i) {
      clock(i)[static_cast<std::size_t>(i)] = 1;
      for (Line& line : box(i).lines) {
        line.place = DataPlace::nowhere;
        std::memset(line.data, 0, sizeof line.data);
      }
    }
    is_abandoned = false;
  }

  // Where a byte lies: in an area of a rank, which is a line, a slot, or one of the two buffers of the rank's program.
  struct Location {
    int rank = -1, area = -1;  // -1: in none of them
    std::uint64_t offset = 0;
    bool is_in_box() const { return area >= 0 && area < send_area; }
    std::uint64_t number() const { return (static_cast<std::uint64_t>(rank * areas + area) << 32) + offset; }
  };
  // Throws a problem if not all bytes lie in the same area, or some of them are a counter's.
  Location locate(const void* pointer, std::size_t bytes) const {
    const auto address = reinterpret_cast<std::uintptr_t>(pointer);
    for (int rank = 0; rank < ranks_; ++rank) {
      const auto box = reinterpret_cast<std::uintptr_t>(pointers_[static_cast<std::size_t>(rank)]);
      if (address - box < sizeof(Box)) return locate_in_box(rank, address - box, bytes);
      const auto buffers = reinterpret_cast<std::uintptr_t>(buffers_[static_cast<std::size_t>(rank)].get());
      if (address - buffers < sizeof(Buffers))
        return part_of(rank, send_area, address - buffers, sizeof(Buffers) / 2, bytes);
    }
    return {};
  }

  // Returns the number of a counter of a rank. Throws a problem if it is none that ranks wait for.
  int counter_of(int rank, const Counter& counter) const {
    const Box& box = *pointers_[static_cast<std::size_t>(rank)];
    for (std::uint64_t i = 0; i < depth; ++i)
      if (&counter == &box.lines[i].number) return rank * static_cast<int>(depth + 1) + static_cast<int>(i);
    if (&counter == &box.read) return rank * static_cast<int>(depth + 1) + read_counter;
    throw Problem{Problem::broken_premise, "a counter that is none of rank " + std::to_string(rank)};
  }

  // Returns the first store that a wait for `number` may read; null if there is none yet.
  const Store* find_store(int counter, std::uint64_t number) const {
    for (const Store& store : order.stores)
      if (store.counter == counter && store.number >= number) return &store;
    return nullptr;
  }

  // Records an access, and throws a problem if it races with an earlier one. A later access that would race with one
  // that a write covers would race with this write, too.
  void record(int rank, std::uint64_t begin, std::uint64_t bytes, bool is_write) {
    const std::uint64_t end = begin + bytes;
    const VectorClock& now = clock(rank);
    auto& accesses = order.accesses;
    ++compared;
    for (std::size_t i = 0; i < accesses.size();) {
      const Access& other = accesses[i];
      const bool overlaps = other.begin < end && begin < other.end;
      if (overlaps && other.rank != rank && (is_write || other.is_write) &&
          other.clock > now[static_cast<std::size_t>(other.rank)])
        throw Problem{Problem::race, name_access(rank, begin, is_write) + " and " +
                                         name_access(other.rank, other.begin, other.is_write) + " are not ordered"};
      const bool is_covered = begin <= other.begin && other.end <= end;
      if (is_covered && (is_write || (other.rank == rank && !other.is_write))) {
        accesses[i] = accesses.back();
        accesses.pop_back();
      } else {
        ++i;
      }
    }
    accesses.push_back({begin, end, now[static_cast<std::size_t>(rank)], rank, is_write});
    if (accesses.size() > 150) order.forget_what_all_know(ranks_);
  }

  // Lets other ranks run. Throws if one of them has found a problem.
  void suspend() {
    if (!is_abandoned) fibers_.suspend();
    if (is_abandoned) throw Abandoned{};
  }

  struct Pending {
    int counter = -1;  // that a rank waits for; -1: none
    std::uint64_t number = 0;
  };
  bool can_run(int rank) const {
    const Pending& wait = pending[static_cast<std::size_t>(rank)];
    return wait.counter < 0 || find_store(wait.counter, wait.number);
  }

  Order<depth> order{};
  std::array<Pending, max_checked_ranks> pending{};
  std::uint64_t last_barrier_across = 0;  // the number of the call whose barrier between nodes was the last one
  Injection injection;
  bool switches_always = false;  // else only where a rank must wait
  bool is_coarse = false;        // each access to a line or slot counts as one to all of this line and its slot
  bool is_abandoned = false;
  std::uint64_t compared = 0;  // accesses that were compared with those before

 private:
  static Location part_of(int rank, int first_area, std::uint64_t offset, std::uint64_t size, std::uint64_t bytes) {
    const Location found{rank, first_area + static_cast<int>(offset / size), offset % size};
    if (bytes > size - found.offset)
      throw Problem{Problem::wrong_value, std::to_string(bytes) + " bytes reach beyond " + name(found)};
    return found;
  }
  static Location locate_in_box(int rank, std::uint64_t offset, std::uint64_t bytes) {
    static_assert(offsetof(Box, lines) == 0);
    if (offset >= offsetof(Box, slots)) return part_of(rank, depth, offset - offsetof(Box, slots), slot_bytes, bytes);
    if (offset >= sizeof(Box::lines) || offset % cache_line_bytes < sizeof(Counter))
      throw Problem{Problem::broken_premise, "a counter of rank " + std::to_string(rank) + " is accessed as data"};
    return part_of(rank, 0, offset, cache_line_bytes, bytes);
  }

  static std::string name(const Location& at) {
    const int line = at.area % static_cast<int>(depth);
    const std::string owner = "rank " + std::to_string(at.rank) + "'s ";
    if (at.is_in_box()) return owner + (at.area < static_cast<int>(depth) ? "line " : "slot ") + std::to_string(line);
    return owner + (at.area == send_area ? "send buffer" : "receive buffer");
  }
  static std::string name_access(int rank, std::uint64_t begin, bool is_write) {
    const int place = static_cast<int>(begin >> 32);
    return "rank " + std::to_string(rank) + (is_write ? " writes " : " reads ") +
           name({place / areas, place % areas, begin & 0xffffffff});
  }

  int ranks_;
  Fibers& fibers_;
  std::vector<std::unique_ptr<Box>> boxes_;
  std::vector<Box*> pointers_;
  std::vector<std::unique_ptr<Buffers>> buffers_;
};

}  // namespace nearfield::collectives

// Buffers the cache outcomes of one core's accesses until the timing model consumes them. The cache part of several
// accesses is simulated first, without clocks; then the clocks of each variant consume all of these outcomes at once.
#pragma once

#include <cstddef>
#include <span>

#include "sim/engine/time_vector.hpp"
#include "sim/memory/access.hpp"

namespace nearfield::sim {

struct TimingEvent {
  enum class Type : std::uint8_t {
    hits,            // `count` accesses that hit L1, each of which takes `time`
    hit_under_fill,  // an L1 hit of a line that may still be in flight (a secondary miss)
    miss,            // an access that missed L1, and hits of the same line after it: `count` in all
    prefetch,        // a line was prefetched
    write_through,   // `count` stores that L1 writes through to an outer cache that has the line
    nontemporal,     // a non-temporal access
    memory_writes,   // write-backs to memory without an access
    stall,           // the core issues nothing for `time`
    walk,            // a TLB miss that takes `time`, while the core continues
  };
  Type type = Type::hits;
  Access kind = Access::load;
  LookupResult lookup{};  // which level or core supplied the line of a miss
  unsigned bytes = 0;     // of each access
  unsigned writes = 0;    // granules that evictions wrote to memory
  Address address = 0;    // physical
  Ps time = 0;            // extra compute time per access beyond the issue cost, unless stated otherwise above
  Count count = 1;
};

// The events that the clocks have not consumed yet.
class TimingEventBuffer {
 public:
  static constexpr std::size_t capacity = 64;

  bool is_full() const { return num_events_ == capacity; }
  bool empty() const { return num_events_ == 0; }
  void add(const TimingEvent& event) { events_[num_events_++] = event; }
  // Adds `count` hits that take `hit_time`. Merges consecutive hits that take equally long into one event.
  void add_hits(Count count, Ps hit_time) {
    if (num_events_ > 0 && events_[num_events_ - 1].type == TimingEvent::Type::hits &&
        events_[num_events_ - 1].time == hit_time)
      events_[num_events_ - 1].count += count;
    else
      add({.type = TimingEvent::Type::hits, .time = hit_time, .count = count});
  }
  std::span<const TimingEvent> events() const { return {events_.data(), num_events_}; }
  void clear() { num_events_ = 0; }

 private:
  std::array<TimingEvent, capacity> events_;
  std::size_t num_events_ = 0;
};

}  // namespace nearfield::sim

// The event queue of an engine, earliest event first. Events at equal times keep the order in which they were
// scheduled. A 4-ary heap: half as deep as a binary one, and the children of a node lie in one or two cache lines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/engine/time_vector.hpp"

namespace nearfield::sim {

struct Event {
  Ps time = 0;
  std::uint64_t sequence_number = 0;
  void (*callback)(void*) = nullptr;
  void* argument = nullptr;
};

class EventHeap {
 public:
  bool empty() const { return heap_.empty(); }
  const Event& top() const { return heap_.front(); }

  void push(const Event& event) {
    std::size_t index = heap_.size();
    heap_.push_back(event);
    while (index > 0) {
      const std::size_t parent = (index - 1) / arity;
      if (!is_before(event, heap_[parent])) break;
      heap_[index] = heap_[parent];
      index = parent;
    }
    heap_[index] = event;
  }

  Event pop() {
    const Event first = heap_.front();
    const Event last = heap_.back();
    heap_.pop_back();
    if (!heap_.empty()) sift_down(last);
    return first;
  }

 private:
  static constexpr std::size_t arity = 4;

  static bool is_before(const Event& a, const Event& b) {
    return a.time < b.time || (a.time == b.time && a.sequence_number < b.sequence_number);
  }

  void sift_down(const Event& event) {
    std::size_t index = 0;
    for (;;) {
      const std::size_t child = index * arity + 1;
      if (child >= heap_.size()) break;
      std::size_t earliest = child;
      for (std::size_t c = child + 1; c < child + arity && c < heap_.size(); ++c)
        if (is_before(heap_[c], heap_[earliest])) earliest = c;
      if (!is_before(heap_[earliest], event)) break;
      heap_[index] = heap_[earliest];
      index = earliest;
    }
    heap_[index] = event;
  }

  std::vector<Event> heap_;
};

}  // namespace nearfield::sim

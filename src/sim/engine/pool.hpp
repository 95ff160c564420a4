// ObjectPool, so that a run allocates nothing in its steady state; objects are destroyed with the pool. FifoList, an
// intrusive first-in first-out list of such objects, linked through their member `next`.
#pragma once

#include <deque>
#include <vector>

namespace nearfield::sim {

template <class T>
class ObjectPool {
 public:
  // Returns a free object in the state in which it was released, or a new one. The caller must initialise it.
  T* acquire() {
    if (free_.empty()) return &all_.emplace_back();
    T* const object = free_.back();
    free_.pop_back();
    return object;
  }
  void release(T* object) { free_.push_back(object); }

 private:
  std::deque<T> all_;
  std::vector<T*> free_;
};

template <class T>
class FifoList {
 public:
  bool empty() const { return !head_; }
  void push(T* object) {
    object->next = nullptr;
    (head_ ? tail_->next : head_) = object;
    tail_ = object;
  }
  T* pop() {
    T* const object = head_;
    head_ = object->next;
    return object;
  }
  // Returns the first object that satisfies the predicate; nullptr if there is none.
  template <class Wanted>
  T* find(Wanted&& wanted) const {
    T* object = head_;
    while (object && !wanted(*object)) object = object->next;
    return object;
  }
  // Removes and returns the first object that satisfies the predicate; nullptr if there is none.
  template <class Wanted>
  T* extract(Wanted&& wanted) {
    T* before = nullptr;
    for (T* object = head_; object; before = object, object = object->next) {
      if (!wanted(*object)) continue;
      (before ? before->next : head_) = object->next;
      if (object == tail_) tail_ = before;
      return object;
    }
    return nullptr;
  }

 private:
  T* head_ = nullptr;
  T* tail_ = nullptr;
};

}  // namespace nearfield::sim

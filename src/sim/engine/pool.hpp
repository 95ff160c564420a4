// ObjectPool reuses released objects, so that a run allocates nothing in its steady state; all objects are destroyed
// with the pool. FifoList is an intrusive first-in first-out list of such objects, linked through their member `next`.
#pragma once

#include <deque>
#include <vector>

namespace nearfield::sim {

template <class T>
class ObjectPool {
 public:
  // Returns a free object in the state in which it was released, or a new object. The caller must initialize it.
  T* acquire() {
    if (free_objects_.empty()) return &objects_.emplace_back();
    T* const object = free_objects_.back();
    free_objects_.pop_back();
    return object;
  }
  void release(T* object) { free_objects_.push_back(object); }

 private:
  std::deque<T> objects_;
  std::vector<T*> free_objects_;
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
  template <class Predicate>
  T* find(Predicate&& predicate) const {
    T* object = head_;
    while (object && !predicate(*object)) object = object->next;
    return object;
  }
  // Removes and returns the first object that satisfies the predicate; nullptr if there is none.
  template <class Predicate>
  T* extract(Predicate&& predicate) {
    T* previous = nullptr;
    for (T* object = head_; object; previous = object, object = object->next) {
      if (!predicate(*object)) continue;
      (previous ? previous->next : head_) = object->next;
      if (object == tail_) tail_ = previous;
      return object;
    }
    return nullptr;
  }

 private:
  T* head_ = nullptr;
  T* tail_ = nullptr;
};

}  // namespace nearfield::sim

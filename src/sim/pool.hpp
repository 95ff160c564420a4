// Objects that are used again: a run in its steady state allocates nothing. They die with the pool, taken or not. And a
// list of such objects, first in first out, linked through their member `next`.
#pragma once

#include <deque>
#include <vector>

namespace nearfield::sim {

template <class T>
class Pool {
 public:
  // Returns an object as it was left; the caller sets what it needs.
  T* take() {
    if (free_.empty()) return &all_.emplace_back();
    T* const object = free_.back();
    free_.pop_back();
    return object;
  }
  void give(T* object) { free_.push_back(object); }

 private:
  std::deque<T> all_;
  std::vector<T*> free_;
};

template <class T>
class List {
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
  // Returns the first one that is wanted; nullptr if there is none.
  template <class Wanted>
  T* find(Wanted&& wanted) const {
    T* object = head_;
    while (object && !wanted(*object)) object = object->next;
    return object;
  }
  // Takes out and returns the first one that is wanted; nullptr if there is none.
  template <class Wanted>
  T* take(Wanted&& wanted) {
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

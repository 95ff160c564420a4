// An allocator of coroutine frames with free lists, so that a run allocates nothing in its steady state. Frames are
// aligned to 64 bytes, since they hold TimeVectors. Frames above 4 KiB come from the heap. A thread acquires frames
// from the CoroutineFrames that UseOnThisThread selects, otherwise from its thread-local one. A frame may be released
// to another CoroutineFrames than it was acquired from.
#pragma once

#include <array>
#include <cstddef>
#include <new>
#include <utility>

namespace nearfield::sim {

class CoroutineFrames {
 public:
  CoroutineFrames() = default;
  CoroutineFrames(const CoroutineFrames&) = delete;
  CoroutineFrames& operator=(const CoroutineFrames&) = delete;
  ~CoroutineFrames() {
    for (auto* head : heads_)
      while (head) {
        FreeFrame* const next = head->next;
        ::operator delete(head, std::align_val_t{64});
        head = next;
      }
  }

  // Makes this thread acquire frames from `frames` during the lifetime of the object.
  class UseOnThisThread {
   public:
    explicit UseOnThisThread(CoroutineFrames& frames) : before_(std::exchange(frames_in_use(), &frames)) {}
    UseOnThisThread(const UseOnThisThread&) = delete;
    UseOnThisThread& operator=(const UseOnThisThread&) = delete;
    ~UseOnThisThread() { frames_in_use() = before_; }

   private:
    CoroutineFrames* before_;
  };

  static void* acquire(std::size_t bytes) {
    const std::size_t size_class = (bytes + step - 1) / step;
    if (size_class >= classes) return ::operator new(bytes, std::align_val_t{64});
    auto& list = frames_of_this_thread().heads_[size_class];
    if (!list) return ::operator new(size_class * step, std::align_val_t{64});
    FreeFrame* const frame = list;
    list = frame->next;
    return frame;
  }
  static void release(void* memory, std::size_t bytes) {
    const std::size_t size_class = (bytes + step - 1) / step;
    if (size_class >= classes) return ::operator delete(memory, std::align_val_t{64});
    auto& list = frames_of_this_thread().heads_[size_class];
    list = new (memory) FreeFrame{list};
  }

 private:
  static constexpr std::size_t step = 64, classes = 65;
  struct FreeFrame {
    FreeFrame* next;
  };
  static CoroutineFrames*& frames_in_use() {
    thread_local CoroutineFrames* frames = nullptr;
    return frames;
  }
  static CoroutineFrames& frames_of_this_thread() {
    if (CoroutineFrames* const frames = frames_in_use()) [[likely]]
      return *frames;
    thread_local CoroutineFrames own;
    return own;
  }

  std::array<FreeFrame*, classes> heads_{};
};

}  // namespace nearfield::sim

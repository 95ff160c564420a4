// An allocator of coroutine frames with free lists, so that a run allocates nothing in its steady state. Frames are
// aligned to 64 bytes, since they hold TimeVectors. Frames above 4 KiB come from the heap. A thread acquires frames
// from the CoroutineFrames that UseOnThisThread selects, otherwise from its thread-local CoroutineFrames. A frame may
// be released to another CoroutineFrames than the one from which it was acquired.
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
    for (auto* head : free_lists_)
      while (head) {
        FreeFrame* const next = head->next;
        ::operator delete(head, std::align_val_t{64});
        head = next;
      }
  }

  // Makes this thread acquire frames from `frames` during the lifetime of the object.
  class UseOnThisThread {
   public:
    explicit UseOnThisThread(CoroutineFrames& frames) : previous_frames_(std::exchange(frames_in_use(), &frames)) {}
    UseOnThisThread(const UseOnThisThread&) = delete;
    UseOnThisThread& operator=(const UseOnThisThread&) = delete;
    ~UseOnThisThread() { frames_in_use() = previous_frames_; }

   private:
    CoroutineFrames* previous_frames_;
  };

  static void* acquire(std::size_t bytes) {
    const std::size_t size_class = (bytes + size_class_bytes - 1) / size_class_bytes;
    if (size_class >= num_size_classes) return ::operator new(bytes, std::align_val_t{64});
    auto& list = frames_of_this_thread().free_lists_[size_class];
    if (!list) return ::operator new(size_class * size_class_bytes, std::align_val_t{64});
    FreeFrame* const frame = list;
    list = frame->next;
    return frame;
  }
  static void release(void* memory, std::size_t bytes) {
    const std::size_t size_class = (bytes + size_class_bytes - 1) / size_class_bytes;
    if (size_class >= num_size_classes) return ::operator delete(memory, std::align_val_t{64});
    auto& list = frames_of_this_thread().free_lists_[size_class];
    list = new (memory) FreeFrame{list};
  }

 private:
  static constexpr std::size_t size_class_bytes = 64, num_size_classes = 65;
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
    thread_local CoroutineFrames default_frames;
    return default_frames;
  }

  std::array<FreeFrame*, num_size_classes> free_lists_{};
};

}  // namespace nearfield::sim

// Memory of coroutine frames: freed ones are kept and used again, so that a run in its steady state allocates nothing.
// They are aligned to 64 bytes, since frames hold Times. Frames above 4 KiB come from the heap. One list per thread: a
// frame must be freed by the thread that made it, as everything here is used by one thread.
#pragma once

#include <array>
#include <cstddef>
#include <new>

namespace nearfield::sim {

class Frames {
 public:
  static void* take(std::size_t bytes) {
    const std::size_t size_class = (bytes + step - 1) / step;
    if (size_class >= classes) return ::operator new(bytes, std::align_val_t{64});
    auto& list = lists().heads[size_class];
    if (!list) return ::operator new(size_class * step, std::align_val_t{64});
    Free* const frame = list;
    list = frame->next;
    return frame;
  }
  static void give(void* memory, std::size_t bytes) {
    const std::size_t size_class = (bytes + step - 1) / step;
    if (size_class >= classes) return ::operator delete(memory, std::align_val_t{64});
    auto& list = lists().heads[size_class];
    list = new (memory) Free{list};
  }

 private:
  static constexpr std::size_t step = 64, classes = 65;
  struct Free {
    Free* next;
  };
  struct Lists {
    std::array<Free*, classes> heads{};
    ~Lists() {
      for (auto* head : heads)
        while (head) {
          Free* const next = head->next;
          ::operator delete(head, std::align_val_t{64});
          head = next;
        }
    }
  };
  static Lists& lists() {
    thread_local Lists all;
    return all;
  }
};

}  // namespace nearfield::sim

// Counts messages and bytes by copy path, per thread, and sums them for the report. user_cooperative (user_both in the
// report): the sender copied a part of the message.
#pragma once

#include <cstddef>

namespace nearfield::heap {

enum class CopyPath { user, user_streaming, user_cooperative, kernel_not_in_heap, kernel_not_shared };
inline constexpr int copy_paths = 5;
inline constexpr const char* copy_path_names[copy_paths] = {"user_plain", "user_streaming", "user_both",
                                                            "kernel_not_in_heap", "kernel_not_shared"};

struct Counts {
  std::size_t messages[copy_paths] = {}, bytes[copy_paths] = {};
};

void count_message(CopyPath path, std::size_t bytes);
Counts all_counts();
// Called in a forked child, which has copied no message yet.
void reset_counts();

}  // namespace nearfield::heap

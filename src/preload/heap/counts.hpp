// Counts messages and bytes by copy path, per thread, and sums them for the report. user_cooperative (user_both in
// the report): the sender copied a part of the message.
#pragma once

#include <cstddef>

namespace nearfield::heap {

enum class CopyPath { user_plain, user_streaming, user_cooperative, kernel_not_in_heap, kernel_not_shared };
inline constexpr int num_copy_paths = 5;
inline constexpr const char* copy_path_names[num_copy_paths] = {"user_plain", "user_streaming", "user_both",
                                                                "kernel_not_in_heap", "kernel_not_shared"};

struct CopyCounts {
  std::size_t num_messages[num_copy_paths] = {}, num_bytes[num_copy_paths] = {};
};

void count_message(CopyPath path, std::size_t bytes);
CopyCounts sum_copy_counts();
// Called in a forked child, which has copied no message yet.
void reset_copy_counts();

}  // namespace nearfield::heap

// Counts messages and bytes by the way that they went, per thread, and sums them for the report. user_both means that
// the sender helped.
#pragma once

#include <cstddef>

namespace nearfield::heap {

enum class Way { user_plain, user_streaming, user_both, kernel_not_in_heap, kernel_not_shared };
inline constexpr int ways = 5;
inline constexpr const char* way_names[ways] = {"user_plain", "user_streaming", "user_both", "kernel_not_in_heap",
                                                "kernel_not_shared"};

struct Counts {
  std::size_t messages[ways] = {}, bytes[ways] = {};
};

void count_message(Way way, std::size_t bytes);
Counts all_counts();
// Is called in a child, which has sent nothing yet.
void forget_counts();

}  // namespace nearfield::heap

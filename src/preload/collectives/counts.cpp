#include "preload/collectives/counts.hpp"

#include <cstdio>

#include "base/export.h"
#include "preload/collectives/job.hpp"
#include "preload/collectives/settings.hpp"

namespace nearfield::collectives {
namespace {

std::atomic<FunctionCallCounts*> first_function_counts{nullptr};

}  // namespace

FunctionCallCounts::FunctionCallCounts(const char* function)
    : function_name(function), next(first_function_counts.load()) {
  while (!first_function_counts.compare_exchange_weak(next, this)) {
  }
}

void print_call_summary(int rank) {
  const int summary = settings().summary_level;
  if (summary == 0) return;
  unsigned long long num_direct = 0, num_left_to_mpi = 0;
  char text[1024] = "", *end = text;
  for (FunctionCallCounts* counts = first_function_counts.load(); counts; counts = counts->next) {
    const unsigned long long num_function_direct = counts->num_calls[1].load();
    num_direct += num_function_direct;
    num_left_to_mpi += counts->num_calls[0].load();
    if (num_function_direct > 0 && end < text + sizeof text - 64)
      end += std::snprintf(end, 64, "%s%s %llu", end == text ? ": " : ", ", counts->function_name, num_function_direct);
  }
  std::fprintf(stderr, "nearfield: rank %d did %llu of %llu collectives itself%s\n", rank, num_direct,
               num_direct + num_left_to_mpi, text);
  if (!is_library_loaded_by_all_ranks())
    std::fprintf(
        stderr,
        "nearfield: the MPI library did them all, because the ranks are on several nodes, or not known to be on "
        "one, and may lack this library there; set NEARFIELD_ALL_NODES=1 if all nodes have it\n");
  if (const unsigned long long sleeps = num_sleeps_on_shared_core.load())
    std::fprintf(
        stderr,
        "nearfield: rank %d slept %llu times in waits because other threads needed its core; peers woke it %llu "
        "times\n",
        rank, sleeps, static_cast<unsigned long long>(num_wakes_on_shared_core.load()));
  if (summary == 1) return;
  for (FunctionCallCounts* counts = first_function_counts.load(); counts; counts = counts->next)
    std::fprintf(stderr, "nearfield: %s: %llu direct in %.6f s, %llu by the MPI library in %.6f s\n",
                 counts->function_name, static_cast<unsigned long long>(counts->num_calls[1].load()),
                 static_cast<double>(counts->time_ns[1].load()) * 1e-9,
                 static_cast<unsigned long long>(counts->num_calls[0].load()),
                 static_cast<double>(counts->time_ns[0].load()) * 1e-9);
}

}  // namespace nearfield::collectives

// Returns the number of collectives of this process that were direct. measure.cpp finds this function by dlsym.
NEARFIELD_EXPORT unsigned long long nearfield_collectives_count_direct() {
  unsigned long long num_direct = 0;
  for (auto* counts = nearfield::collectives::first_function_counts.load(); counts; counts = counts->next)
    num_direct += counts->num_calls[1].load();
  return num_direct;
}

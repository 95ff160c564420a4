#include "preload/collectives/counts.hpp"

#include <cstdio>

#include "base/export.h"
#include "preload/collectives/job.hpp"
#include "preload/collectives/settings.hpp"

namespace nearfield::collectives {
namespace {

std::atomic<CallCounts*> first_counts{nullptr};

}  // namespace

CallCounts::CallCounts(const char* function) : name(function), next(first_counts.load()) {
  while (!first_counts.compare_exchange_weak(next, this)) {
  }
}

void print_call_summary(int rank) {
  const int summary = settings().summary;
  if (summary == 0) return;
  unsigned long long direct = 0, left = 0;
  char text[1024] = "", *end = text;
  for (CallCounts* counts = first_counts.load(); counts; counts = counts->next) {
    const unsigned long long number = counts->calls[1].load();
    direct += number;
    left += counts->calls[0].load();
    if (number > 0 && end < text + sizeof text - 64)
      end += std::snprintf(end, 64, "%s%s %llu", end == text ? ": " : ", ", counts->name, number);
  }
  std::fprintf(stderr, "nearfield: rank %d did %llu of %llu collectives itself%s\n", rank, direct, direct + left, text);
  if (!is_library_loaded_by_all_ranks())
    std::fprintf(
        stderr,
        "nearfield: the MPI library did them all, because the ranks are on several nodes, or not known to be on "
        "one, and may lack this library there; NEARFIELD_ALL_NODES=1 says that they have it\n");
  if (const unsigned long long sleeps = sleeps_on_shared_core.load())
    std::fprintf(
        stderr,
        "nearfield: rank %d slept %llu times in waits because other threads needed its core; peers woke it %llu "
        "times\n",
        rank, sleeps, static_cast<unsigned long long>(wakes_on_shared_core.load()));
  if (summary == 1) return;
  for (CallCounts* counts = first_counts.load(); counts; counts = counts->next)
    std::fprintf(
        stderr, "nearfield: %s: %llu direct in %.6f s, %llu by the MPI library in %.6f s\n", counts->name,
        static_cast<unsigned long long>(counts->calls[1].load()), static_cast<double>(counts->ns[1].load()) * 1e-9,
        static_cast<unsigned long long>(counts->calls[0].load()), static_cast<double>(counts->ns[0].load()) * 1e-9);
}

}  // namespace nearfield::collectives

// Returns the number of collectives of this process that were direct. measure.cpp finds this function by dlsym.
NEARFIELD_EXPORT unsigned long long nearfield_collectives_count_direct() {
  unsigned long long direct = 0;
  for (auto* counts = nearfield::collectives::first_counts.load(); counts; counts = counts->next)
    direct += counts->calls[1].load();
  return direct;
}

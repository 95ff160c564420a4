#include "preload/collectives/counts.hpp"

#include <cstdio>

#include "preload/collectives/settings.hpp"

namespace nearfield::collectives {
namespace {

std::atomic<Counts*> first{nullptr};

}  // namespace

Counts::Counts(const char* function) : name(function), next(first.load()) {
  while (!first.compare_exchange_weak(next, this)) {
  }
}

void print_summary(int rank) {
  if (settings().summary == 0) return;
  unsigned long long direct = 0, left = 0;
  char text[1024] = "", *end = text;
  for (Counts* counts = first.load(); counts; counts = counts->next) {
    const unsigned long long number = counts->direct.load();
    direct += number;
    left += counts->left_to_mpi.load();
    if (number > 0 && end < text + sizeof text - 64)
      end += std::snprintf(end, 64, "%s%s %llu", end == text ? ": " : ", ", counts->name, number);
  }
  std::fprintf(stderr, "nearfield: rank %d did %llu of %llu collectives inside the node itself%s\n", rank, direct,
               direct + left, text);
}

}  // namespace nearfield::collectives

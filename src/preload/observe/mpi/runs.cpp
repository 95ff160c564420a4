#include "preload/observe/mpi/runs.hpp"

namespace nearfield::observe {
namespace {

using stream::LayoutRun;
using stream::Number;

std::int64_t to_signed(Number number) { return static_cast<std::int64_t>(number); }

// If the blocks of `last` and `next` form one regular run, merges `next` into `last` and returns true. Otherwise
// returns false.
bool merge_runs(LayoutRun& last, const LayoutRun& next) {
  if (last.count == 1 && next.count == 1 && last.offset_bytes + to_signed(last.bytes) == next.offset_bytes) {
    last.bytes += next.bytes;
    return true;
  }
  if (last.bytes != next.bytes) return false;
  const std::int64_t stride = last.count > 1   ? last.stride_bytes
                              : next.count > 1 ? next.stride_bytes
                                               : next.offset_bytes - last.offset_bytes;
  if (next.count > 1 && next.stride_bytes != stride) return false;
  if (next.offset_bytes != last.offset_bytes + to_signed(last.count) * stride) return false;
  last.count += next.count;
  last.stride_bytes = stride;
  return true;
}

}  // namespace

void BlockRuns::add_run(LayoutRun run) {
  if (run.bytes == 0 || run.count == 0 || is_truncated_) return;
  if (!runs_.empty() && merge_runs(runs_.back(), run)) return;
  if (runs_.size() == max_runs)
    is_truncated_ = true;
  else
    runs_.push_back(run);
}

// If `count` copies of `run` at this stride form a single run, adds this run and returns true. Otherwise returns false.
bool BlockRuns::add_as_single_run(LayoutRun run, Number count, std::int64_t stride_bytes) {
  if (run.count == 1 && stride_bytes == to_signed(run.bytes)) {
    run.bytes *= count;
  } else if (run.count == 1 && count > 1) {
    run.count = count;
    run.stride_bytes = stride_bytes;
  } else if (stride_bytes == to_signed(run.count) * run.stride_bytes || count == 1) {
    run.count *= count;
  } else {
    return false;
  }
  add_run(run);
  return true;
}

void BlockRuns::add_copies(const BlockRuns& element, std::int64_t offset_bytes, std::int64_t count,
                           std::int64_t stride_bytes) {
  if (count <= 0 || element.runs_.empty()) return;
  is_truncated_ |= element.is_truncated_;
  if (element.runs_.size() == 1) {
    LayoutRun run = element.runs_.front();
    run.offset_bytes += offset_bytes;
    if (add_as_single_run(run, static_cast<Number>(count), stride_bytes)) return;
  }
  for (std::int64_t i = 0; i < count && !is_truncated_; ++i)
    for (LayoutRun run : element.runs_) {
      run.offset_bytes += offset_bytes + i * stride_bytes;
      add_run(run);
    }
}

Number BlockRuns::size_bytes() const {
  Number sum = 0;
  for (const LayoutRun& run : runs_) sum += run.bytes * run.count;
  return sum;
}

}  // namespace nearfield::observe

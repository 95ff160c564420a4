// The bytes of a datatype as a list of regular runs of blocks, in the order of MPI's type map.
#pragma once

#include <cstdint>
#include <vector>

#include "trace/stream/events.hpp"

namespace nearfield::observe {

class BlockRuns {
 public:
  static constexpr std::size_t max_runs = 65536;  // further runs are dropped

  // Adds `count` copies of the runs of `element`: the first moved by `offset_bytes`, each next copy by `stride_bytes`
  // more.
  void add_copies(const BlockRuns& element, std::int64_t offset_bytes, std::int64_t count, std::int64_t stride_bytes);
  // Adds a run; merges the run into the last one if both form one regular run.
  void add_run(stream::LayoutRun run);

  const std::vector<stream::LayoutRun>& runs() const { return runs_; }
  // Returns whether runs were dropped because there were too many.
  bool is_truncated() const { return is_truncated_; }
  stream::Number size_bytes() const;

 private:
  bool add_as_single_run(stream::LayoutRun run, stream::Number count, std::int64_t stride_bytes);

  std::vector<stream::LayoutRun> runs_;
  bool is_truncated_ = false;
};

}  // namespace nearfield::observe

// Analyses the stream of one rank in two passes: the first finds the memory of its messages; the second computes the
// reuse distance from each message to the last write before it, or to the first read after it.
//
// A send loads the lines of its data, and a receive stores to its lines when its completion is recorded. Collectives
// and libraries without hooks are assumed to touch nothing.
#pragma once

#include <functional>
#include <memory>

#include "analysis/analysis_result.hpp"
#include "trace/stream/source.hpp"

namespace nearfield::advise {

struct Options {
  std::vector<std::uint64_t> limits_bytes;  // capacities, ascending
  std::uint64_t small_bytes = 8192;         // messages up to here count in bursts
  std::size_t sampled_lines = 1 << 15, max_pages = 1 << 14;
};

// Called repeatedly with the number of accesses read, of both passes together; ends the analysis by throwing.
using Progress = std::function<void(std::uint64_t accesses)>;

// Both sources read the same stream from its beginning; the first one is destroyed before the second one is read, since
// a reader may use much memory. Throws std::runtime_error for broken streams (Source).
AnalysisResult analyse(std::unique_ptr<stream::Source> first, stream::Source& second, const Options& options,
                       const Progress& progress);

}  // namespace nearfield::advise

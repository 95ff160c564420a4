// Analyses the stream of one rank in two passes. The first pass finds the cache lines of the rank's message buffers.
// The second pass computes reuse distances: from the last access to a line until the line is sent, and from the
// completion of a receive until the first access to its data.
//
// A send counts as a load of the lines of its data. A receive counts as a store to the lines of its data when its
// completion is recorded. Collectives, and libraries compiled without hooks, are assumed to access no memory.
#pragma once

#include <functional>
#include <memory>

#include "analysis/analysis_result.hpp"
#include "trace/stream/source.hpp"

namespace nearfield::advise {

struct AnalysisOptions {
  std::vector<std::uint64_t> cache_capacities_bytes;  // cache capacities, ascending
  std::uint64_t max_small_message_bytes = 8192;       // the largest message that counts in bursts
  std::size_t max_sampled_lines = 1 << 15, max_sampled_pages = 1 << 14;
};

// Is called repeatedly with the number of accesses read so far, in both passes together. May throw to end the analysis.
using ProgressCallback = std::function<void(std::uint64_t accesses)>;

// Both sources must read the same stream from its beginning. Destroys `first_pass` before it reads `second_pass`, since
// a reader may use much memory. Throws std::runtime_error if the stream is broken (stream::StreamSource).
StreamAnalysisResult analyze_stream(std::unique_ptr<stream::StreamSource> first_pass, stream::StreamSource& second_pass,
                                    const AnalysisOptions& options, const ProgressCallback& progress);

}  // namespace nearfield::advise

// Analyses the stream of one rank: first which memory its messages use, then, from the beginning again, how far each
// message is from the last write before it, or the first read behind it.
//
// A send loads the lines of its data, and a receive stores to those of its own when the rank is told that it is done.
// Collectives and libraries without hooks are taken to touch nothing.
#pragma once

#include <functional>
#include <memory>

#include "advise/found.hpp"
#include "stream/source.hpp"

namespace nearfield::advise {

struct Options {
  std::vector<std::uint64_t> limits_bytes;  // capacities, ascending
  std::uint64_t small_bytes = 8192;         // messages up to here count in bursts
  std::size_t sampled_lines = 1 << 15, most_pages = 1 << 14;
};

// Is told now and then how many accesses have been read, in both passes together; ends the analysis by throwing.
using Progress = std::function<void(std::uint64_t accesses)>;

// Both sources are of the same stream, at its beginning; the first one is destroyed before the second one is read, since
// a reader may have much memory. Throws std::runtime_error for broken streams (Source).
Found analyse(std::unique_ptr<stream::Source> first, stream::Source& second, const Options& options,
              const Progress& progress);

}  // namespace nearfield::advise

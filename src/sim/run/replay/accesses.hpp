// Replays the accesses of a stream, and the arithmetic between them, on the rank's core.
//
// The stream does not record arithmetic; the number of floating-point operations is known per code location of an
// access. Arithmetic overlaps with the issue of neighbouring accesses, but not with memory stalls.
//
// Loads whose address an earlier load returned (LoadRole) wait for its data. Several chains that a program follows side
// by side are replayed as one: each of their loads waits for the one before it. A mispredicted branch
// (branch_predictor.hpp) waits for the load before it, on which its condition is assumed to depend.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "sim/mpi/rank.hpp"
#include "sim/run/replay/branch_predictor.hpp"
#include "sim/run/replay/first_reads.hpp"
#include "sim/run/replay/polling_detector.hpp"
#include "trace/stream/source.hpp"

namespace nearfield::sim {
class AddressSpace;  // memory/address_space.hpp
}

namespace nearfield::sim::replay {

// Returns the floating-point operations per access at a code location. An empty function: no arithmetic.
using FlopsOfSite = std::function<float(std::uint32_t site)>;

class AccessReplay {
 public:
  // All arguments must outlive this object.
  // `first_reads` gets the accesses to received data; nullptr: nothing does.
  AccessReplay(stream::Source& source, const FlopsOfSite& flops_of_site, Rank& rank, AddressSpace& space,
               FirstReads* first_reads)
      : source_(source),
        flops_of_site_(flops_of_site),
        rank_(rank),
        space_(space),
        first_reads_(first_reads),
        batch_(at_a_time) {}

  // Replays the accesses before the next event of the stream, or skips them unless `timed`.
  Task<> replay_to_event(bool timed, PollingDetector& polling);
  std::uint64_t replayed_count() const { return replayed_; }
  std::uint64_t skipped_count() const { return skipped_; }
  // Returns the floating-point operations of the replayed accesses.
  double replayed_flops() const { return flops_; }

 private:
  static constexpr std::size_t at_a_time = 4096;

  void add_folded(const stream::Reference& access);
  void add_chain_load(const Reference& load);
  void wait_for_condition();
  Task<> replay_with_first_reads();
  Ps arithmetic_excess(std::span<const stream::Reference> accesses);

  stream::Source& source_;
  const FlopsOfSite& flops_of_site_;
  Rank& rank_;
  AddressSpace& space_;
  FirstReads* first_reads_;
  std::vector<float> site_flops_;  // of the sites that have occurred
  double flops_ = 0;
  std::uint64_t replayed_ = 0, skipped_ = 0, batches_ = 0;
  BranchPredictor branches_;
  std::uint64_t mispredicted_ = 0;  // branches of the batch
  std::vector<stream::Reference> batch_;
  std::vector<Reference> folded_;
};

}  // namespace nearfield::sim::replay

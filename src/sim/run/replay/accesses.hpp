// Replays the accesses of a stream, and the arithmetic between them, on the rank's core.
//
// The stream does not record arithmetic; FlopsOfSite returns the number of floating-point operations per access at a
// code location. Arithmetic overlaps with the issue of neighboring accesses, but not with memory stalls.
//
// A load whose address an earlier load returned (LoadRole) waits for the data of that load. If a program follows
// several chains of such loads side by side, they are replayed as one chain: each load waits for the preceding one. A
// mispredicted branch (branch_predictor.hpp) waits for the preceding load, on which its condition is assumed to depend.
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

// Returns the number of floating-point operations per access at a code location. An empty function stands for no
// arithmetic.
using FlopsOfSite = std::function<float(std::uint32_t site)>;

class AccessReplay {
 public:
  // All arguments must outlive this object.
  // `first_reads` is notified of the accesses to received data; nullptr: these are not tracked.
  AccessReplay(stream::StreamSource& source, const FlopsOfSite& flops_of_site, Rank& rank, AddressSpace& space,
               FirstReads* first_reads)
      : source_(source),
        flops_of_site_(flops_of_site),
        rank_(rank),
        space_(space),
        first_reads_(first_reads),
        access_batch_(batch_accesses) {}

  // Replays the accesses before the next event of the stream, or skips them unless `is_timed`.
  Task<> replay_to_event(bool is_timed, PollingDetector& polling);
  std::uint64_t num_replayed() const { return num_replayed_; }
  std::uint64_t num_skipped() const { return num_skipped_; }
  // Returns the number of floating-point operations of the replayed accesses.
  double replayed_flops() const { return replayed_flops_; }

 private:
  static constexpr std::size_t batch_accesses = 4096;

  void add_node_references(const stream::Reference& access);
  void add_chain_load(const Reference& load);
  void wait_for_condition();
  Task<> replay_with_first_reads();
  Ps arithmetic_excess(std::span<const stream::Reference> accesses);

  stream::StreamSource& source_;
  const FlopsOfSite& flops_of_site_;
  Rank& rank_;
  AddressSpace& space_;
  FirstReads* first_reads_;
  std::vector<float> flops_by_site_;  // of the sites that have occurred
  double replayed_flops_ = 0;
  std::uint64_t num_replayed_ = 0, num_skipped_ = 0, num_batches_ = 0;
  BranchPredictor branch_predictor_;
  std::uint64_t num_mispredicted_ = 0;  // branches of the batch
  std::vector<stream::Reference> access_batch_;
  std::vector<Reference> node_references_;
};

}  // namespace nearfield::sim::replay

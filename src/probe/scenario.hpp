// The interface of a scenario that is measured under MPI. Each scenario is one file in scenarios/ that exports one
// Spec. The build finds the files, so no list has to be edited.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/registry.hpp"
#include "scenario/scenario.hpp"

namespace nearfield::probe {

struct Context;

/// A buffer, and the cache state in which its lines must be when run_timed() starts.
struct BufferInCacheState {
  std::span<std::byte> memory;
  std::string state;  ///< "invalid", "exclusive" or "modified"
};

/// A metric of a case that this machine does not support. Its record has a null value and this reason.
struct UnsupportedCase {
  std::string metric;
  Parameters parameters;
  std::string reason;
};

/// The engine calls these functions in the same order on every rank of the launch. Sanity check of a case, before its
/// first visit: select_case(i), fill_buffers(), synchronised start, run_timed(), check_received_data(). Visit of a
/// case: select_case(i), then for each repetition prepare_repetition(), synchronised start, run_timed(). Only
/// run_timed() is timed; it reads the clock itself and writes one value per metric of the Spec (NaN: no value on this
/// rank). prepare_repetition() and run_timed() must not allocate memory. MPI errors are fatal. If this machine or MPI
/// does not support a case, Spec::make or select_case() throws Unavailable on all ranks.
class Scenario {
 public:
  explicit Scenario(Context& ctx) : ctx_(ctx) {}
  virtual ~Scenario() = default;
  const std::vector<Parameters>& cases() const { return cases_; }
  virtual void select_case(std::size_t index) = 0;
  virtual void prepare_repetition() {}
  virtual void run_timed(std::span<double> values) = 0;
  /// Fills send buffers with a pattern that depends on `seed`, and receive buffers with a different pattern than they
  /// will receive.
  virtual void fill_buffers(unsigned seed) = 0;
  /// Checks the data received since fill_buffers(seed). Returns the error, or an empty string.
  virtual std::string check_received_data(unsigned seed) = 0;
  /// Returns the receive buffer, which the engine can damage to test check_received_data().
  virtual std::span<std::byte> received_data() = 0;
  /// Returns the buffers whose cache state prepare_repetition() establishes.
  virtual std::vector<BufferInCacheState> buffers_in_cache_state() { return {}; }
  /// Returns the unsupported cases, which are not in cases(), with reasons.
  virtual std::vector<UnsupportedCase> unsupported_cases() { return {}; }
  /// Called on ranks >= 2 of a `pair_and_background` scenario: generates load until the pair has finished its visit.
  virtual void run_background_load() {}
  /// Called on the pair before and after a visit: begin_visit() waits until the background load runs, end_visit() stops
  /// it.
  virtual void begin_visit() {}
  virtual void end_visit() {}

 protected:
  /// Return the parameter size_bytes of a case, or the largest size_bytes of all cases.
  std::size_t message_bytes_of(std::size_t index) const {
    return static_cast<std::size_t>(number_parameter(cases_[index], "size_bytes"));
  }
  std::size_t max_message_bytes() const {
    std::size_t max_message_bytes = 0;
    for (std::size_t i = 0; i < cases_.size(); ++i)
      max_message_bytes = std::max(max_message_bytes, message_bytes_of(i));
    return max_message_bytes;
  }

  Context& ctx_;
  std::vector<Parameters> cases_;  ///< filled by the constructors of derived classes
};

struct Spec {
  const ScenarioInfo& info;
  double time_budget_weight;  ///< relative share of the time budget; 0: measured only if the plan names the scenario
  std::unique_ptr<Scenario> (*make)(Context&);
};

/// Returns all scenarios in the order in which they run (generated from the files in scenarios/).
const std::vector<const Spec*>& all_scenarios();

}  // namespace nearfield::probe

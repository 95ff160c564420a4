// The contract of a scenario measured by MPI: one file in scenarios/ that exports one Spec. The build finds the files,
// so nothing else has to be edited.
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

/// A buffer whose lines should be in a known state when the body starts.
struct StatedBuffer {
  std::span<std::byte> memory;
  std::string state;  ///< "invalid", "exclusive" or "modified"
};

/// A case that this machine does not support; its record is null.
struct MissingCase {
  std::string metric;
  Parameters parameters;
  std::string reason;
};

/// The engine calls these functions on every rank of the launch in the same order:
/// /   cases(), then for each visit of a case: select(i), and for each repetition prepare() -> synchronised start ->
/// body(). A case is first visited by the sanity check: select(i), fill(), synchronised start, body(), problem(). Only
/// body() is timed, by itself: it writes one value per metric of the Spec (NaN: none on this rank). prepare() and
/// body() must not allocate. MPI errors are fatal. make or select() throw Unavailable, on all ranks alike, if this
/// machine or MPI does not support the case.
class Scenario {
 public:
  explicit Scenario(Context& ctx) : ctx_(ctx) {}
  virtual ~Scenario() = default;
  const std::vector<Parameters>& cases() const { return cases_; }
  virtual void select(std::size_t index) = 0;
  virtual void prepare() {}
  virtual void body(std::span<double> values) = 0;
  /// Fills send buffers with a pattern, and receive buffers with anything but the pattern that will arrive.
  virtual void fill(unsigned seed) = 0;
  /// Returns an error in the data received since fill(seed); empty if there is none.
  virtual std::string problem(unsigned seed) = 0;
  /// Returns the receive buffer, which the engine can damage to test problem().
  virtual std::span<std::byte> arrived() = 0;
  /// Returns the buffers whose state prepare() establishes; empty if there are none.
  virtual std::vector<StatedBuffer> stated() { return {}; }
  /// Returns the cases that are not in cases(), with reasons.
  virtual std::vector<MissingCase> missing() { return {}; }
  /// For ranks >= 2 of `pair_and_background`: generates load until the pair has finished `visit`.
  virtual void background() {}
  /// For the pair, around a visit: waits until the background runs, and ends it.
  virtual void begin_visit() {}
  virtual void end_visit() {}

 protected:
  /// Returns the parameter size_bytes of a case, and the largest of all cases.
  std::size_t bytes_of(std::size_t index) const {
    return static_cast<std::size_t>(number_parameter(cases_[index], "size_bytes"));
  }
  std::size_t max_bytes() const {
    std::size_t max_bytes = 0;
    for (std::size_t i = 0; i < cases_.size(); ++i) max_bytes = std::max(max_bytes, bytes_of(i));
    return max_bytes;
  }

  Context& ctx_;
  std::vector<Parameters> cases_;  ///< filled by constructors
};

struct Spec {
  const ScenarioInfo& info;
  double weight;  ///< relative share of the time budget; 0: only measured on request
  std::unique_ptr<Scenario> (*make)(Context&);
};

/// Returns all scenarios in the order in which they run (generated from the files in scenarios/).
const std::vector<const Spec*>& all_scenarios();

}  // namespace nearfield::probe

// The contract of a scenario that MPI measures: one file in scenarios/ that exports one Spec. The build finds the
// files, so nothing else has to be edited.
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

/// A case that this machine cannot give; its record is null.
struct MissingCase {
  std::string metric;
  Parameters parameters;
  std::string reason;
};

/// Called by the engine on every rank of the launch in the same order:
///   cases(), then for each visit of a case: select(i), and for each repetition prepare() -> start line -> body().
/// A case is first visited by the sanity check: select(i), fill(), start line, body(), problem().
/// Only body() is timed, by itself: it writes one value per metric of the Spec (NaN: none on this rank).
/// Nothing is allocated in prepare() or body(). MPI errors are fatal. Throw Unavailable from make or select()
/// when this machine or MPI cannot do it; all ranks must then throw alike.
class Scenario {
 public:
  explicit Scenario(Context& ctx) : ctx_(ctx) {}
  virtual ~Scenario() = default;
  const std::vector<Parameters>& cases() const { return cases_; }
  virtual void select(std::size_t index) = 0;
  virtual void prepare() {}
  virtual void body(std::span<double> values) = 0;
  /// Puts a pattern to send into the buffers and anything but it where it will arrive.
  virtual void fill(unsigned seed) = 0;
  /// Returns what is wrong with the data that arrived since fill(seed); empty if nothing is.
  virtual std::string problem(unsigned seed) = 0;
  /// Returns where data arrives; the engine can damage it to show that problem() notices.
  virtual std::span<std::byte> arrived() = 0;
  /// Returns the buffers whose state prepare() promises; empty if it promises none.
  virtual std::vector<StatedBuffer> stated() { return {}; }
  /// Returns the cases that were left out of cases(), and why.
  virtual std::vector<MissingCase> missing() { return {}; }
  /// Ranks >= 2 of `pair_and_background`: keep the machine busy until the pair is done with `visit`.
  virtual void background() {}
  /// The pair, around a visit: wait until the background runs, and end it.
  virtual void begin_visit() {}
  virtual void end_visit() {}

 protected:
  /// Returns the parameter size_bytes of a case, and the largest of all cases.
  std::size_t bytes_of(std::size_t index) const {
    return static_cast<std::size_t>(number(cases_[index], "size_bytes"));
  }
  std::size_t most_bytes() const {
    std::size_t most = 0;
    for (std::size_t i = 0; i < cases_.size(); ++i) most = std::max(most, bytes_of(i));
    return most;
  }

  Context& ctx_;
  std::vector<Parameters> cases_;  ///< filled by constructors
};

struct Spec {
  const ScenarioInfo& info;
  double weight;  ///< share of the time budget, relative to the other scenarios; 0: measured only when asked for
  std::unique_ptr<Scenario> (*make)(Context&);
};

/// Returns every scenario in the order in which they run (generated from the files in scenarios/).
const std::vector<const Spec*>& all_scenarios();

}  // namespace nearfield::probe

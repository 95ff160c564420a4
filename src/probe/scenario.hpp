// What a scenario is: one file in scenarios/ that exports one Spec. The build finds the files; nothing else to edit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace nearfield::probe {

struct Context;

/// One value of a parameter: a number (with its unit in the parameter's name) or a word.
using Value = std::variant<std::int64_t, std::string>;
/// The parameters of one case, in the order of the Spec.
using Parameters = std::vector<std::pair<std::string, Value>>;

/// Whose values become the record.
enum class Combine {
  sides,   ///< the sender's (rank 0) and the receiver's (rank 1), as two records
  root,    ///< rank 0's
  slowest  ///< the largest over the ranks, repetition by repetition: when the operation was over everywhere
};

struct Metric {
  std::string name;
  std::string unit;  ///< "ns" (the body writes clock ticks), "count" or "bytes"
  Combine combine;
  std::string summary;
};

struct ParameterInfo {
  std::string name;
  std::string summary;
};

/// Which ranks take part. A launch has exactly the ranks that its scenarios need.
enum class Ranks { pair, all, pair_and_background };

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
  virtual ~Scenario() = default;
  virtual std::vector<Parameters> cases() = 0;
  virtual void select(std::size_t index) = 0;
  virtual void prepare() {}
  virtual void body(std::span<double> values) = 0;
  /// Puts a pattern to send into the buffers and anything but it where it will arrive.
  virtual void fill(unsigned seed) = 0;
  /// What is wrong with what arrived since fill(seed); empty if nothing.
  virtual std::string problem(unsigned seed) = 0;
  /// Where data arrives: the engine damages it when told to, to show that problem() notices.
  virtual std::span<std::byte> arrived() = 0;
  /// The buffers whose state prepare() promises; empty if it promises none.
  virtual std::vector<StatedBuffer> stated() { return {}; }
  /// Asked once after cases(): what was left out of them, and why.
  virtual std::vector<MissingCase> missing() { return {}; }
  /// Ranks >= 2 of `pair_and_background`: keep the machine busy until the pair is done with `visit`.
  virtual void background() {}
  /// The pair, around a visit: wait until the background runs, and end it.
  virtual void begin_visit() {}
  virtual void end_visit() {}
};

struct Spec {
  std::string name;
  std::string summary;
  Ranks ranks;
  double weight;  ///< share of the time budget, relative to the other scenarios; 0: measured only when asked for
  std::vector<ParameterInfo> parameters;
  std::vector<Metric> metrics;
  std::unique_ptr<Scenario> (*make)(Context&);
};

/// Every scenario, in the order in which they run (generated from the files in scenarios/).
const std::vector<const Spec*>& all_scenarios();

/// The Spec of that name; throws Failure naming the nearest valid one.
const Spec& find_scenario(const std::string& name);

}  // namespace nearfield::probe

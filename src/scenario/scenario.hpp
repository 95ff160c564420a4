// Defines a scenario for both backends: its name, its parameters and its metrics. A scenario that both backends have
// is declared once, in a header of its own beside this one, and implemented by the files of the same name in
// probe/scenarios/ (by MPI, on this machine) and sim/scenarios/ (on a simulated machine). A scenario that only one
// backend has is declared in the file that implements it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace nearfield {

/// One value of a parameter: a number (with its unit in the parameter's name) or a word.
using Value = std::variant<std::int64_t, std::string>;
/// The parameters of one case, in the order of their declaration.
using Parameters = std::vector<std::pair<std::string, Value>>;

/// Returns the parameter of that name; throws std::invalid_argument if it is missing or of the other kind.
std::int64_t number(const Parameters& parameters, const std::string& name);
std::string word(const Parameters& parameters, const std::string& name);
/// Returns whether a parameter is there, for those that a case may leave out.
bool given(const Parameters& parameters, const std::string& name);
/// Returns whether the parameter has one of these values, numbers written in decimals.
bool has_value(const Parameters& parameters, const std::string& name, const std::vector<std::string>& values);

/// The ranks that take part.
enum class Ranks {
  pair,                ///< two, at a distance
  all,                 ///< one on every core
  pair_and_background  ///< two that are measured, while the others keep the machine busy
};

/// The ranks whose values become the record.
enum class Combine {
  sides,   ///< the sender's (rank 0) and the receiver's (rank 1), as two records
  root,    ///< rank 0's
  slowest  ///< the largest over the ranks, repetition by repetition: when the operation was over everywhere
};

struct MetricInfo {
  std::string name;
  std::string unit;  ///< "ns", "count" or "bytes"
  Combine combine;
  std::string summary;
};

struct ParameterInfo {
  std::string name;
  std::string summary;
};

struct ScenarioInfo {
  std::string name;
  std::string summary;
  Ranks ranks;
  std::vector<ParameterInfo> parameters;
  std::vector<MetricInfo> metrics;
};

}  // namespace nearfield

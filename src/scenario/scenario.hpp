// The declaration of a scenario: a benchmark with parameters and metrics. A scenario that can be both measured and
// simulated is declared once, in a header of this folder, and implemented by the files of the same name in
// probe/scenarios/ (by MPI, on this machine) and sim/run/scenarios/ (on a simulated machine). Any other scenario is
// declared in the file that implements it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace nearfield {

/// The value of a parameter: a number (its unit is in the parameter's name) or a word.
using Value = std::variant<std::int64_t, std::string>;
/// The parameters of one case (one point of the parameter space), in the order of their declaration.
using Parameters = std::vector<std::pair<std::string, Value>>;

/// Return the value of the parameter `name`, a number or a word. Throw std::invalid_argument if the parameter is
/// missing or has the other type.
std::int64_t number_parameter(const Parameters& parameters, const std::string& name);
std::string word_parameter(const Parameters& parameters, const std::string& name);
/// Returns whether a case has this optional parameter.
bool has_parameter(const Parameters& parameters, const std::string& name);
/// Returns whether the parameter exists and has one of `values`, in which numbers are in decimal notation.
bool has_parameter_value(const Parameters& parameters, const std::string& name, const std::vector<std::string>& values);

/// The ranks that take part in a scenario.
enum class Ranks {
  pair,                ///< two ranks at a given distance
  all,                 ///< one rank on every core
  pair_and_background  ///< two measured ranks, while all other ranks generate background load
};

/// How the values that the ranks measure become records.
enum class Combine {
  sides,   ///< two records: the value of the sender (rank 0) and that of the receiver (rank 1)
  root,    ///< one record: the value of rank 0
  slowest  ///< one record: the maximum over all ranks in each repetition, when the operation has finished everywhere
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

// Defines a scenario for both backends: name, parameters and metrics. A scenario of both backends is declared once, in
// a header in this folder, and implemented by the files of the same name in probe/scenarios/ (by MPI, on this machine)
// and sim/run/scenarios/ (on a simulated machine). A scenario of one backend is declared in the file that implements
// it.
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

/// Returns the parameter of that name; throws std::invalid_argument if it is missing or of the other type.
std::int64_t number(const Parameters& parameters, const std::string& name);
std::string word(const Parameters& parameters, const std::string& name);
/// Returns whether a case has this optional parameter.
bool has_parameter(const Parameters& parameters, const std::string& name);
/// Returns whether the parameter has one of these values; numbers are in decimal notation.
bool has_value(const Parameters& parameters, const std::string& name, const std::vector<std::string>& values);

/// The ranks that take part.
enum class Ranks {
  pair,                ///< two, at a distance
  all,                 ///< one on every core
  pair_and_background  ///< two that are measured, while the others generate load
};

/// The ranks whose values form the record.
enum class Combine {
  sides,   ///< the sender's (rank 0) and the receiver's (rank 1), as two records
  root,    ///< rank 0's
  slowest  ///< the maximum over the ranks, by repetition: the operation has finished everywhere
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

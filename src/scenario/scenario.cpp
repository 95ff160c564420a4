#include "scenario/scenario.hpp"

#include <algorithm>
#include <stdexcept>

namespace nearfield {
namespace {

template <class T>
T find_parameter(const Parameters& parameters, const std::string& name) {
  for (const auto& [key, value] : parameters)
    if (const T* match = key == name ? std::get_if<T>(&value) : nullptr) return *match;
  throw std::invalid_argument("the parameter '" + name + "' is missing, or of another kind");
}

}  // namespace

std::int64_t number_parameter(const Parameters& parameters, const std::string& name) {
  return find_parameter<std::int64_t>(parameters, name);
}

std::string word_parameter(const Parameters& parameters, const std::string& name) {
  return find_parameter<std::string>(parameters, name);
}

bool has_parameter(const Parameters& parameters, const std::string& name) {
  for (const auto& [key, value] : parameters)
    if (key == name) return true;
  return false;
}

bool has_parameter_value(const Parameters& parameters, const std::string& name,
                         const std::vector<std::string>& values) {
  const auto format_value = [](const Value& value) {
    const auto* text = std::get_if<std::string>(&value);
    return text ? *text : std::to_string(std::get<std::int64_t>(value));
  };
  return std::any_of(parameters.begin(), parameters.end(), [&](const auto& parameter) {
    return parameter.first == name &&
           std::find(values.begin(), values.end(), format_value(parameter.second)) != values.end();
  });
}

}  // namespace nearfield

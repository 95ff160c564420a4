#include "scenario/scenario.hpp"

#include <stdexcept>

namespace nearfield {
namespace {

template <class T>
T parameter(const Parameters& parameters, const std::string& name) {
  for (const auto& [its_name, value] : parameters)
    if (const T* found = its_name == name ? std::get_if<T>(&value) : nullptr) return *found;
  throw std::invalid_argument("the parameter '" + name + "' is missing, or of another kind");
}

}  // namespace

std::int64_t number(const Parameters& parameters, const std::string& name) {
  return parameter<std::int64_t>(parameters, name);
}

std::string word(const Parameters& parameters, const std::string& name) {
  return parameter<std::string>(parameters, name);
}

bool given(const Parameters& parameters, const std::string& name) {
  for (const auto& [its_name, value] : parameters)
    if (its_name == name) return true;
  return false;
}

}  // namespace nearfield

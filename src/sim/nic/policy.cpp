#include "sim/nic/policy.hpp"

#include <charconv>
#include <stdexcept>

#include "base/registry.hpp"
#include "machine/machine.hpp"

namespace nearfield::sim {
namespace {

void check_levels(const PolicySpec& spec, const Machine& machine) {
  const int levels = static_cast<int>(machine.caches.size());
  if (spec.min_cache_levels <= levels) return;
  std::string others;
  for (const auto* other : all_policies())
    if (other->min_cache_levels <= levels) others += (others.empty() ? "" : ", ") + std::string(other->name);
  throw std::invalid_argument("policy '" + std::string(spec.name) + "' puts lines into cache level " +
                              std::to_string(spec.min_cache_levels) + ", machine '" + machine.name + "' has " +
                              std::to_string(levels) + "; these would work: " + others);
}

}  // namespace

PolicyChoice::PolicyChoice(const std::string& text, const Machine& machine) : text_(text) {
  const std::size_t colon = text.find(':');
  spec_ = &find_named(all_policies(), text.substr(0, colon), "policy");
  for (const auto& parameter : spec_->parameters) values_.push_back(parameter.default_value);
  for (std::size_t begin = colon; begin != std::string::npos;) {
    const std::size_t end = text.find(',', begin + 1);
    set_parameter(text.substr(begin + 1, end == std::string::npos ? end : end - begin - 1));
    begin = end;
  }
  check_levels(*spec_, machine);
}

void PolicyChoice::set_parameter(const std::string& setting) {
  const std::size_t equals = setting.find('=');
  const std::string name = setting.substr(0, equals);
  const std::string policy = spec_->name;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < values_.size(); ++i) {
    const PolicyParameter& parameter = spec_->parameters[i];
    names.emplace_back(parameter.name);
    if (name != parameter.name) continue;
    const char* const end = setting.data() + setting.size();
    const char* const digits = equals == std::string::npos ? end : setting.data() + equals + 1;
    const auto [stop, error] = std::from_chars(digits, end, values_[i]);
    if (error != std::errc() || stop != end || values_[i] < parameter.min || values_[i] > parameter.max)
      throw std::invalid_argument("policy '" + policy + "': '" + setting + "': " + name + " is a whole number from " +
                                  std::to_string(parameter.min) + " to " + std::to_string(parameter.max));
    return;
  }
  throw std::invalid_argument("policy '" + policy + "' has no parameter '" + name + "'" +
                              (names.empty() ? "" : "; the nearest is '" + nearest_name(name, names) + "'"));
}

}  // namespace nearfield::sim

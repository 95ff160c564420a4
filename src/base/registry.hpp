// Finds and creates variants (protocols, scenarios, formats, ...) by the names that users see.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/text.hpp"

namespace nearfield {

/// Returns the variant of that name. If there is none, throws std::invalid_argument with the nearest name;
/// `variant_kind` names the kind of variant in the message.
template <class Spec, class Name>
const Spec& find_named(const std::vector<const Spec*>& specs, const std::string& name, const std::string& variant_kind,
                       Name&& name_of) {
  std::vector<std::string> names;
  for (const Spec* spec : specs) {
    if (name == name_of(*spec)) return *spec;
    names.emplace_back(name_of(*spec));
  }
  throw std::invalid_argument("there is no " + variant_kind + " '" + name + "'; the nearest is '" +
                              nearest_name(name, names) + "'");
}

template <class Spec>
const Spec& find_named(const std::vector<const Spec*>& specs, const std::string& name,
                       const std::string& variant_kind) {
  return find_named(specs, name, variant_kind, [](const Spec& spec) { return spec.name; });
}

/// Returns a new Implementation of Interface, constructed from the arguments, or default-constructed if it has no such
/// constructor. The member `make` of a Spec points to an instance of this function.
template <class Interface, class Implementation, class... Arguments>
std::unique_ptr<Interface> make_implementation(Arguments... arguments) {
  if constexpr (std::is_constructible_v<Implementation, Arguments...>)
    return std::make_unique<Implementation>(std::forward<Arguments>(arguments)...);
  else
    return std::make_unique<Implementation>();
}

}  // namespace nearfield

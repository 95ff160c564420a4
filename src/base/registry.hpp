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

/// Returns the variant of that name. If there is none, throws std::invalid_argument with the nearest name; `kind` names
/// the kind of variant in the message.
template <class Spec, class Name>
const Spec& find_named(const std::vector<const Spec*>& all, const std::string& name, const std::string& kind,
                       Name&& name_of) {
  std::vector<std::string> names;
  for (const Spec* spec : all) {
    if (name == name_of(*spec)) return *spec;
    names.emplace_back(name_of(*spec));
  }
  throw std::invalid_argument("there is no " + kind + " '" + name + "'; the nearest is '" + nearest_name(name, names) +
                              "'");
}

template <class Spec>
const Spec& find_named(const std::vector<const Spec*>& all, const std::string& name, const std::string& kind) {
  return find_named(all, name, kind, [](const Spec& spec) { return spec.name; });
}

/// Returns a new Variant, constructed from the arguments, or by default if it has no such constructor. Used as `make`
/// of a Spec.
template <class Interface, class Variant, class... Arguments>
std::unique_ptr<Interface> make_variant(Arguments... arguments) {
  if constexpr (std::is_constructible_v<Variant, Arguments...>)
    return std::make_unique<Variant>(std::forward<Arguments>(arguments)...);
  else
    return std::make_unique<Variant>();
}

}  // namespace nearfield

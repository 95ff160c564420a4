// Lists of variants, each of which has a name that users write.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "base/text.hpp"

namespace nearfield {

/// Returns the variant of that name. Throws std::invalid_argument that names the nearest one, as a `kind` of variant.
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

}  // namespace nearfield

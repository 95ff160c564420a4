#include "sim/app/application.hpp"

#include <stdexcept>

#include "base/text.hpp"

namespace nearfield::sim {

const std::vector<const ApplicationSpec*>& all_applications() {
  static const std::vector<const ApplicationSpec*> all{&amg_application, &fft_application};
  return all;
}

const ApplicationSpec& find_application(const std::string& name) {
  std::vector<std::string> names;
  for (const auto* spec : all_applications()) {
    if (name == spec->name) return *spec;
    names.emplace_back(spec->name);
  }
  throw std::invalid_argument("there is no application '" + name + "'; the nearest is '" + nearest_name(name, names) +
                              "'");
}

}  // namespace nearfield::sim

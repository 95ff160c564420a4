#include "sim/app/application.hpp"

#include "base/registry.hpp"

namespace nearfield::sim {

const ApplicationSpec& find_application(const std::string& name) {
  return find_named(all_applications(), name, "application");
}

}  // namespace nearfield::sim

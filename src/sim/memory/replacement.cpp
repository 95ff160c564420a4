#include "sim/memory/replacement.hpp"

namespace nearfield::sim {

const std::vector<const ReplacementSpec*>& all_replacements() {
  static const std::vector<const ReplacementSpec*> all{&lru_spec, &tree_plru_spec, &random_spec};
  return all;
}

}  // namespace nearfield::sim

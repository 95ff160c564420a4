// The contents of all caches of a node: the tree of caches with the lines that they hold, under one or several variants
// (variants.hpp), and counters. Functions that move lines between caches are in evictions.hpp, requests of cores in
// hierarchy.hpp, coherence in coherence.hpp, accesses of devices in devices.hpp, and timing in timing.hpp.
#pragma once

#include "sim/memory/cache_counters.hpp"
#include "sim/memory/cache_tree.hpp"
#include "sim/memory/deferred_updates.hpp"
#include "sim/memory/variants.hpp"

namespace nearfield::sim {

struct CacheContents {
  // Throws std::invalid_argument, which names the cache, for an impossible geometry. `ways_matter`: a device may be
  // restricted to some ways of a set.
  CacheContents(const Machine& machine, int num_variants, bool ways_matter)
      : counters(num_variants, static_cast<int>(machine.caches.size())),
        variants(num_variants, counters),
        tree(machine, variants, ways_matter) {}

  // Runs `action` once per group of variants with the same outcome (Variants::run), then applies the deferred updates.
  // Lines that may differ between variants may be changed only inside run().
  template <class Action>
  NEARFIELD_ALWAYS_INLINE Variants::GroupLeaders run(const Variants::EquivalenceClasses& classes, Action&& action) {
    const auto leaders = variants.run(classes, action);
    if (!deferred_updates.empty()) [[unlikely]]
      deferred_updates.apply(leaders);
    return leaders;
  }
  // Same as run() above, for an action that is identical in all variants.
  template <class Action>
  NEARFIELD_ALWAYS_INLINE Variants::GroupLeaders run(Action&& action) {
    return run(variants.single_class(), action);
  }
  // Runs `action` once for all variants. The action may access only sets that are the same in all variants.
  template <class Action>
  NEARFIELD_ALWAYS_INLINE void run_on_common_sets(Action&& action) {
    action();
    if (!deferred_updates.empty()) [[unlikely]]
      deferred_updates.apply({});
  }
  // Copies the contents and counts that other caches of the same machine have under one variant. These caches must be
  // empty and simulate a single variant.
  void copy_variant_from(const CacheContents& other, int variant) {
    tree.copy_variant_from(other.tree, variant);
    counters.common() = other.counters.sum_of_variant(variant);
  }

  CacheCounters counters;
  Variants variants;
  CacheTree tree;
  DeferredUpdates deferred_updates{tree, variants, counters};
};

}  // namespace nearfield::sim

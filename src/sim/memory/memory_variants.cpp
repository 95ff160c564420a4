// A core's accesses under several variants (variants.hpp). Most are the same in all: their cache part is simulated
// once, then each variant's clock consumes the outcome.
#include "sim/memory/core_context.hpp"

namespace nearfield::sim {

// The outcome of an access in the caches.
struct MemoryModel::Outcomes {
  struct Outcome {
    Outcome() {}
    union {
      LookupResult found;
    };
    unsigned writes;        // granules written to memory
    Address prefetch_line;  // the line to prefetch, or no_line
  };
  const Outcome& of(std::size_t variant) const { return by[leaders[variant]]; }

  std::array<Outcome, max_variants> by;  // by leader
  Variants::GroupLeaders leaders;
};

// One or more accesses to a line that the fast path does not handle.
void MemoryModel::access_line_per_variant(const CoreContext& context, Access kind, Address address, unsigned bytes,
                                          Count times, Ps work) {
  auto& hierarchy = context.hierarchy;
  auto& tree = context.tree;
  const bool store = is_store(kind);
  const auto access = [&] {
    return store ? hierarchy.store(context.core, address) : hierarchy.load(context.core, address);
  };
  if (hierarchy.hits_l1_in_all_variants(context.core, store, address)) {
    tree.run_common(access);
    if (context.is_in_flight(address))
      context.add(
          {.what = TimingEvent::What::hit_under_fill, .kind = kind, .bytes = bytes, .address = address, .time = work});
    else
      context.add_hits(kind, bytes, 1, work);
    if (times > 1) {
      tree.run_common([&] { hierarchy.repeat(context.core, store, address, times - 1); });
      context.add_hits(kind, bytes, times - 1, work);
    }
    return;
  }
  Outcomes outcomes;
  outcomes.leaders = tree.run([&](int variant) {
    auto& outcome = outcomes.by[static_cast<std::size_t>(variant)];
    outcome.found = access();
    outcome.writes = tree.take_writes();
    outcome.prefetch_line = no_line;
    if (context.prefetcher && outcome.found.level > 0)
      outcome.prefetch_line = context.prefetcher->on_miss(address).value_or(no_line);
  });
  const auto event_of = [&](const Outcomes::Outcome& outcome) -> TimingEvent {
    const auto what = outcome.found.level > 0 ? TimingEvent::What::miss : TimingEvent::What::hit_under_fill;
    return {.what = what,
            .kind = kind,
            .found = outcome.found,
            .bytes = bytes,
            .writes = outcome.writes,
            .address = address,
            .time = work};
  };
  const bool diverged = outcomes.leaders.has_several();
  if (diverged) {
    ++diverging_accesses_;
    context.flush_timing_events();
    for (std::size_t v = 0; v < context.times.size(); ++v) context.apply_event(v, event_of(outcomes.of(v)));
  } else {
    context.add(event_of(outcomes.by[0]));
  }
  if (context.prefetcher && (diverged || outcomes.by[0].prefetch_line < end_of_memory))
    run_prefetcher_per_variant<SlowPathConfig<true>>(context, outcomes);
  if (times > 1) repeat_per_variant(context, kind, address, bytes, times - 1, work);
}

// The accesses to a line after the first one.
void MemoryModel::repeat_per_variant(const CoreContext& context, Access kind, Address address, unsigned bytes,
                                     Count count, Ps work) {
  auto& tree = context.tree;
  std::array<unsigned, max_variants> writes;
  const auto repeat = [&](int variant) {
    context.hierarchy.repeat(context.core, is_store(kind), address, count);
    return writes[static_cast<std::size_t>(variant)] = tree.take_writes();
  };
  Variants::GroupLeaders leaders;
  if (is_store(kind) && context.path.l1_node->writes_through)
    leaders = tree.run(repeat);
  else
    tree.run_common([&] { return repeat(0); });
  if (!leaders.has_several()) {
    context.add_writes(address, writes[0]);
  } else {
    context.flush_timing_events();
    for (std::size_t v = 0; v < context.times.size(); ++v)
      context.apply_event(v,
                          {.what = TimingEvent::What::memory_writes, .writes = writes[leaders[v]], .address = address});
  }
  context.add_hits(kind, bytes, count, work);
}

// The prefetcher sees an L1 miss that happened in all variants. Returns whether any line was fetched.
template <class Config>
bool MemoryModel::run_prefetcher_per_variant(const CoreContext& context, Address address) {
  Outcomes outcomes;
  const auto choose_line = [&](int variant) {
    outcomes.by[static_cast<std::size_t>(variant)].prefetch_line =
        context.prefetcher->on_miss(address).value_or(no_line);
  };
  if (context.prefetcher->is_common())
    choose_line(0);
  else
    outcomes.leaders = context.tree.run(choose_line);
  if (!outcomes.leaders.has_several() && outcomes.by[0].prefetch_line >= end_of_memory) return false;
  return run_prefetcher_per_variant<Config>(context, outcomes);
}

// Prefetches, in each variant, the line that the prefetcher chose if there is a slot. Returns whether any line was
// fetched.
template <class Config>
bool MemoryModel::run_prefetcher_per_variant(const CoreContext& context, const Outcomes& outcomes) {
  context.flush_timing_events();
  std::array<Address, max_variants> lines{};
  bool all_equal = true;
  for (std::size_t v = 0; v < context.times.size(); ++v) {
    auto& [timing, clock] = context.times[v];
    const auto prefetch_line = outcomes.of(v).prefetch_line;
    lines[v] = prefetch_line < end_of_memory && timing.has_prefetch_slot(clock) ? prefetch_line : no_line;
    all_equal &= lines[v] == lines[0];
  }
  auto& tree = context.tree;
  const auto& variants = tree.variants();
  const int level = context.prefetcher->level();
  if (all_equal) {
    if (lines[0] == no_line || context.hierarchy.is_present_in_all_variants(context.core, level, lines[0]))
      return false;
    FastPath<Config> fast(context.hierarchy, context.path);
    if (const int from = level == 1 ? fast.prefetch(lines[0]) : fast.slow; from != fast.slow) {
      context.add(
          {.what = TimingEvent::What::prefetch, .found = {from}, .writes = tree.take_writes(), .address = lines[0]});
      context.mark_in_flight(lines[0]);
      return true;
    }
  }
  std::array<std::optional<LookupResult>, max_variants> from;
  std::array<unsigned, max_variants> writes;
  const auto classes =
      all_equal ? variants.single_class()
                : variants.equivalence_classes([&](std::size_t a, std::size_t b) { return lines[a] == lines[b]; });
  const auto leaders = tree.run(classes, [&](int variant) {
    const auto v = static_cast<std::size_t>(variant);
    if (lines[v] != no_line) from[v] = context.hierarchy.prefetch(context.core, level, lines[v]);
    writes[v] = tree.take_writes();
  });
  for (std::size_t v = 0; v < context.times.size(); ++v) {
    const auto leader = leaders[v];
    if (!from[leader]) continue;
    context.apply_event(v, {.what = TimingEvent::What::prefetch,
                            .found = *from[leader],
                            .writes = writes[leader],
                            .address = lines[leader]});
    context.mark_in_flight(lines[leader]);
  }
  return true;
}

}  // namespace nearfield::sim

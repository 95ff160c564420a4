// The accesses of cores that the fast path does not handle, and those of prefetchers. The cache part of an access is
// simulated once for each group of variants (variants.hpp), then each variant's clock consumes the outcome.
#include "sim/memory/core_context.hpp"

namespace nearfield::sim {

// The outcomes of one access in the caches, one per group of variants.
struct MemoryModel::Outcomes {
  struct Outcome {
    Outcome() {}
    union {
      LookupResult lookup;
    };
    unsigned writes;  // granules written to memory
    std::optional<StreamPrefetcher::PrefetchRequest> prefetch;
  };
  const Outcome& outcome_of(std::size_t variant) const { return outcome_by_leader[leaders[variant]]; }

  std::array<Outcome, max_variants> outcome_by_leader;  // indexed by the leader of a group
  Variants::GroupLeaders leaders;
};

// Makes `num_accesses` accesses to one L1 line on the slow path.
void MemoryModel::access_line_slow(const CoreContext& context, Access kind, Address address, unsigned bytes,
                                   Count num_accesses, Ps compute_time) {
  auto& hierarchy = context.hierarchy;
  auto& contents = context.contents;
  const bool store = is_store(kind);
  // The first use of a prefetched line advances a stream, and streams may differ between variants.
  const bool advances_on_use = context.prefetcher && context.prefetcher->advances_on_use();
  Outcomes outcomes;
  const auto access = [&](int variant) {
    auto& outcome = outcomes.outcome_by_leader[static_cast<std::size_t>(variant)];
    outcome.lookup = store ? hierarchy.store(context.core, address) : hierarchy.load(context.core, address);
    outcome.writes = contents.counters.take_write_count();
    outcome.prefetch.reset();
    if (context.prefetcher &&
        (outcome.lookup.level > 0 || (outcome.lookup.is_first_use_of_prefetch && advances_on_use)))
      outcome.prefetch = context.prefetcher->on_miss(address);
  };
  if (context.has_variants() && !advances_on_use && hierarchy.hits_l1_in_all_variants(context.core, store, address))
    contents.run_on_common_sets([&] { access(0); });
  else
    outcomes.leaders = contents.run(access);
  // A store that takes its line from other caches occupies the core longer.
  const auto time_of = [&](const Outcomes::Outcome& outcome) {
    return outcome.lookup.has_invalidated_copies ? compute_time + context.timing.upgrade_time(outcome.lookup.level)
                                                 : compute_time;
  };
  const bool diverged = outcomes.leaders.has_several_groups();
  num_diverging_accesses_ += diverged;
  if (!diverged && outcomes.outcome_by_leader[0].lookup.level == 0 && !context.is_in_flight(address))
    context.add_hits(kind, bytes, 1, time_of(outcomes.outcome_by_leader[0]));
  else
    context.add_event_per_group(outcomes.leaders, [&](std::size_t leader) -> TimingEvent {
      const auto& outcome = outcomes.outcome_by_leader[leader];
      const auto type = outcome.lookup.level > 0 ? TimingEvent::Type::miss : TimingEvent::Type::hit_under_fill;
      return {.type = type,
              .kind = kind,
              .lookup = outcome.lookup,
              .bytes = bytes,
              .writes = outcome.writes,
              .address = address,
              .time = time_of(outcome)};
    });
  if (context.prefetcher) run_prefetcher<SlowPathConfig>(context, outcomes);
  if (num_accesses > 1) repeat_access_slow(context, kind, address, bytes, num_accesses - 1, compute_time);
}

// Makes `count` further accesses to the line of the last access.
void MemoryModel::repeat_access_slow(const CoreContext& context, Access kind, Address address, unsigned bytes,
                                     Count count, Ps compute_time) {
  auto& contents = context.contents;
  std::array<unsigned, max_variants> writes;
  const auto repeat = [&](int variant) {
    context.hierarchy.repeat(context.core, is_store(kind), address, count);
    writes[static_cast<std::size_t>(variant)] = contents.counters.take_write_count();
  };
  Variants::GroupLeaders leaders;
  if (is_store(kind) && context.path.l1_node->writes_through)
    leaders = contents.run(repeat);
  else
    contents.run_on_common_sets([&] { repeat(0); });
  if (leaders.has_several_groups() || writes[0] > 0)
    context.add_event_per_group(leaders, [&](std::size_t leader) -> TimingEvent {
      return {.type = TimingEvent::Type::memory_writes, .writes = writes[leader], .address = address};
    });
  context.add_hits(kind, bytes, count, compute_time);
}

// Prefetches a line in a model of one variant, if a slot is free. Returns whether the line was fetched.
template <class Config>
bool MemoryModel::prefetch(const CoreContext& context, Address line) {
  context.flush_timing_events();
  if (!context.timing.has_prefetch_slot(context.clock)) return false;
  std::optional<LookupResult> from;
  const int level = context.prefetcher->target_level();
  const int fast_level =
      level == 1 ? FastPath<Config>(context.hierarchy, context.path).prefetch(line) : FastPath<Config>::needs_slow_path;
  if (fast_level == FastPath<Config>::needs_slow_path)
    from = context.hierarchy.prefetch(context.core, level, line);
  else if (fast_level > 0)
    from = {fast_level};
  if (!from) return false;
  context.add_event({.type = TimingEvent::Type::prefetch,
                     .lookup = *from,
                     .writes = context.contents.counters.take_write_count(),
                     .address = line});
  context.mark_in_flight(line);
  return true;
}

// Notifies the core's prefetcher of an L1 miss (or of the first use of a prefetched line) in all variants, and fetches
// the lines that it requests. Returns whether any line was fetched.
template <class Config>
bool MemoryModel::run_prefetcher(const CoreContext& context, Address address) {
  if constexpr (!Config::has_variants) {
    const auto request = context.prefetcher->on_miss(address);
    bool fetched = false;
    for (int n = 0; request && n <= request->num_lines_before; ++n)
      fetched |= request->nth_line(n) < end_of_memory && prefetch<Config>(context, request->nth_line(n));
    return fetched;
  }
  Outcomes outcomes;
  const auto choose_line = [&](int variant) {
    outcomes.outcome_by_leader[static_cast<std::size_t>(variant)].prefetch = context.prefetcher->on_miss(address);
  };
  if (context.prefetcher->is_common_to_all_variants())
    choose_line(0);
  else
    outcomes.leaders = context.contents.run(choose_line);
  return run_prefetcher<Config>(context, outcomes);
}

// Fetches the lines that the prefetcher requested, under each variant. Returns whether any line was fetched.
template <class Config>
bool MemoryModel::run_prefetcher(const CoreContext& context, const Outcomes& outcomes) {
  if (!outcomes.leaders.has_several_groups() && !outcomes.outcome_by_leader[0].prefetch) return false;
  int last = 0;
  for (std::size_t v = 0; v < context.variant_clocks.size(); ++v)
    if (const auto& request = outcomes.outcome_of(v).prefetch) last = std::max(last, request->num_lines_before);
  bool fetched = false;
  for (int n = 0; n <= last; ++n) fetched |= prefetch_nth_line<Config>(context, outcomes, n);
  return fetched;
}

// Fetches line `n` of the prefetch request of each variant, if that variant has a free slot. Returns whether any line
// may have been fetched.
template <class Config>
bool MemoryModel::prefetch_nth_line(const CoreContext& context, const Outcomes& outcomes, int n) {
  context.flush_timing_events();
  std::array<Address, max_variants> lines{};
  bool all_equal = true;
  for (std::size_t v = 0; v < context.variant_clocks.size(); ++v) {
    auto& [timing, clock] = context.variant_clocks[v];
    const auto& request = outcomes.outcome_of(v).prefetch;
    const Address prefetch_line = request && n <= request->num_lines_before ? request->nth_line(n) : no_line;
    lines[v] = prefetch_line < end_of_memory && timing.has_prefetch_slot(clock) ? prefetch_line : no_line;
    all_equal &= lines[v] == lines[0];
  }
  auto& contents = context.contents;
  const int level = context.prefetcher->target_level();
  if (all_equal) {
    if (lines[0] == no_line) return false;
    FastPath<Config> fast(context.hierarchy, context.path);
    const int from = level == 1 ? fast.prefetch(lines[0]) : fast.needs_slow_path;
    if (from == 0 ||
        (from == fast.needs_slow_path && context.hierarchy.is_present_in_all_variants(context.core, level, lines[0])))
      return false;
    if (from != fast.needs_slow_path) {
      context.add_event({.type = TimingEvent::Type::prefetch,
                         .lookup = {from},
                         .writes = contents.counters.take_write_count(),
                         .address = lines[0]});
      context.mark_in_flight(lines[0]);
      return true;
    }
  }
  std::array<std::optional<LookupResult>, max_variants> from;
  std::array<unsigned, max_variants> writes;
  const auto& variants = contents.variants;
  const auto classes =
      all_equal ? variants.single_class()
                : variants.equivalence_classes([&](std::size_t a, std::size_t b) { return lines[a] == lines[b]; });
  const auto leaders = contents.run(classes, [&](int variant) {
    const auto v = static_cast<std::size_t>(variant);
    if (lines[v] != no_line) from[v] = context.hierarchy.prefetch(context.core, level, lines[v]);
    writes[v] = contents.counters.take_write_count();
  });
  for (std::size_t v = 0; v < context.variant_clocks.size(); ++v) {
    const auto leader = leaders[v];
    if (!from[leader]) continue;
    context.apply_event(v, {.type = TimingEvent::Type::prefetch,
                            .lookup = *from[leader],
                            .writes = writes[leader],
                            .address = lines[leader]});
    context.mark_in_flight(lines[leader]);
  }
  return true;
}

}  // namespace nearfield::sim

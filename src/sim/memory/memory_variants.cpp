// A core's accesses under several variants (variants.hpp). Most are alike under all of them: the caches' part is done once,
// then each variant's clock is told of it.
#include "sim/memory/core_context.hpp"

namespace nearfield::sim {

// What an access did to the caches.
struct Memory::Outcomes {
  struct Outcome {
    Outcome() {}
    union {
      Found found;
    };
    unsigned writes;  // units written to memory
    Address ahead;    // the line to fetch ahead, or no_line
  };
  const Outcome& of(std::size_t variant) const { return by[actors[variant]]; }

  std::array<Outcome, most_variants> by;  // who acted
  Variants::Actors actors;
};

// One or more accesses to a line that the fast path does not make.
void Memory::one_of_several(const Acting& acting, Access kind, Address address, unsigned bytes, Count times, Ps work) {
  auto& hierarchy = acting.hierarchy;
  auto& contents = acting.contents;
  const bool store = is_store(kind);
  const auto access = [&] {
    return store ? hierarchy.store(acting.core, address) : hierarchy.load(acting.core, address);
  };
  if (hierarchy.hits_nearest_for_all(acting.core, store, address)) {
    contents.act_for_all(access);
    if (acting.is_ahead(address))
      acting.add({.what = TimedStep::What::awaited, .kind = kind, .bytes = bytes, .address = address, .time = work});
    else
      acting.add_hits(kind, bytes, 1, work);
    if (times > 1) {
      contents.act_for_all([&] {
        hierarchy.repeat(acting.core, store, address, times - 1);
        return 0;
      });
      acting.add_hits(kind, bytes, times - 1, work);
    }
    return;
  }
  Outcomes outcomes;
  outcomes.actors = contents.act([&](int variant) {
    auto& outcome = outcomes.by[static_cast<std::size_t>(variant)];
    outcome.found = access();
    outcome.writes = contents.take_writes();
    outcome.ahead = no_line;
    if (acting.follower && outcome.found.level > 0) outcome.ahead = acting.follower->follow(address).value_or(no_line);
  });
  const auto step_of = [&](const Outcomes::Outcome& outcome) -> TimedStep {
    const auto what = outcome.found.level > 0 ? TimedStep::What::missed : TimedStep::What::awaited;
    return {.what = what,
            .kind = kind,
            .found = outcome.found,
            .bytes = bytes,
            .writes = outcome.writes,
            .address = address,
            .time = work};
  };
  const bool apart = outcomes.actors.several();
  if (apart) {
    if (differing_ < many) ++differing_;
    acting.tell();
    for (std::size_t v = 0; v < acting.times.size(); ++v) acting.tell(v, step_of(outcomes.of(v)));
  } else {
    acting.add(step_of(outcomes.by[0]));
  }
  if (acting.follower && (apart || outcomes.by[0].ahead < end_of_memory))
    look_ahead_of_several<SlowShape<true>>(acting, outcomes);
  if (times > 1) rest_of_several(acting, kind, address, bytes, times - 1, work);
}

// The accesses to a line after the first one.
void Memory::rest_of_several(const Acting& acting, Access kind, Address address, unsigned bytes, Count count, Ps work) {
  auto& contents = acting.contents;
  std::array<unsigned, most_variants> writes;
  const auto repeat = [&](int variant) {
    acting.hierarchy.repeat(acting.core, is_store(kind), address, count);
    return writes[static_cast<std::size_t>(variant)] = contents.take_writes();
  };
  Variants::Actors actors;
  if (is_store(kind) && acting.path.nearest_node->through)
    actors = contents.act(repeat);
  else
    contents.act_for_all([&] { return repeat(0); });
  if (!actors.several()) {
    acting.add_writes(address, writes[0]);
  } else {
    acting.tell();
    for (std::size_t v = 0; v < acting.times.size(); ++v)
      acting.tell(v, {.what = TimedStep::What::writes, .writes = writes[actors[v]], .address = address});
  }
  acting.add_hits(kind, bytes, count, work);
}

// The prefetcher sees a miss that was one under all variants. Returns whether any line was fetched.
template <class Shape>
bool Memory::look_ahead_of_several(const Acting& acting, Address address) {
  Outcomes outcomes;
  const auto follow = [&](int variant) {
    outcomes.by[static_cast<std::size_t>(variant)].ahead = acting.follower->follow(address).value_or(no_line);
  };
  if (acting.follower->is_common())
    follow(0);
  else
    outcomes.actors = acting.contents.act(follow);
  if (!outcomes.actors.several() && outcomes.by[0].ahead >= end_of_memory) return false;
  return look_ahead_of_several<Shape>(acting, outcomes);
}

// Under each variant, the line that the follower named is fetched if there is a slot. Returns whether any was.
template <class Shape>
bool Memory::look_ahead_of_several(const Acting& acting, const Outcomes& outcomes) {
  acting.tell();
  std::array<Address, most_variants> lines{};
  bool all_alike = true;
  for (std::size_t v = 0; v < acting.times.size(); ++v) {
    auto& [timing, clock] = acting.times[v];
    const auto ahead = outcomes.of(v).ahead;
    lines[v] = ahead < end_of_memory && timing.has_slot_to_prefetch(clock) ? ahead : no_line;
    all_alike &= lines[v] == lines[0];
  }
  auto& contents = acting.contents;
  const auto& variants = contents.variants();
  const int level = acting.follower->level();
  if (all_alike) {
    if (lines[0] == no_line || acting.hierarchy.all_have(acting.core, level, lines[0])) return false;
    FastPath<Shape> fast(acting.hierarchy, acting.path);
    if (const int from = level == 1 ? fast.prefetch(lines[0]) : fast.slow; from != fast.slow) {
      acting.add({.what = TimedStep::What::prefetched,
                  .found = {from},
                  .writes = contents.take_writes(),
                  .address = lines[0]});
      acting.goes_ahead(lines[0]);
      return true;
    }
  }
  std::array<std::optional<Found>, most_variants> from;
  std::array<unsigned, most_variants> writes;
  const auto alike = all_alike ? variants.all_alike()
                               : variants.alike([&](std::size_t a, std::size_t b) { return lines[a] == lines[b]; });
  const auto actors = contents.act(alike, [&](int variant) {
    const auto v = static_cast<std::size_t>(variant);
    if (lines[v] != no_line) from[v] = acting.hierarchy.prefetch(acting.core, level, lines[v]);
    writes[v] = contents.take_writes();
  });
  for (std::size_t v = 0; v < acting.times.size(); ++v) {
    const auto whose = actors[v];
    if (!from[whose]) continue;
    acting.tell(
        v,
        {.what = TimedStep::What::prefetched, .found = *from[whose], .writes = writes[whose], .address = lines[whose]});
    acting.goes_ahead(lines[whose]);
  }
  return true;
}

}  // namespace nearfield::sim

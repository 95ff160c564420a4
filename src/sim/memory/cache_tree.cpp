#include "sim/memory/cache_tree.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "sim/memory/evictions.hpp"

namespace nearfield::sim {
namespace {

constexpr std::size_t most_sharers = 16;  // caches of which one before them can keep account
constexpr Count few_searches = 4;         // cost as much as a directory does

[[noreturn]] void refuse(std::size_t level, const std::string& why) {
  throw std::invalid_argument("cache[" + std::to_string(level) + "] " + why);
}

void check_order(const Machine& machine) {
  const auto& caches = machine.caches;
  if (caches.size() > most_cache_levels) refuse(most_cache_levels, "is one more than can be simulated");
  if (caches.empty()) throw std::invalid_argument("a simulated machine needs a cache");
  for (std::size_t k = 0; k < caches.size(); ++k) {
    const auto& cache = caches[k];
    if (cache.shared_by < 1) refuse(k, "is shared by " + std::to_string(cache.shared_by) + " cores");
    if (cache.inclusion == Inclusion::inclusive && cache.sub_blocks > 1) refuse(k, "is inclusive and has sub-blocks");
    if (cache.inclusion == Inclusion::exclusive && k == 0) refuse(k, "is the nearest one and cannot be exclusive");
    if (k == 0) continue;
    const auto& before = caches[k - 1];
    if (cache.inclusion == Inclusion::exclusive && before.write == WritePolicy::through)
      refuse(k, "is exclusive and would take the stores that the one before it writes through");
    if (cache.write == WritePolicy::through && before.write == WritePolicy::back)
      refuse(k, "writes through, and the one before it does not");
    if (cache.line_bytes % before.line_bytes != 0) refuse(k, "has lines that are no multiple of those before it");
    if (cache.shared_by % before.shared_by != 0) refuse(k, "is shared by parts of those before it");
    if (cache.inclusion == Inclusion::exclusive && cache.line_bytes / cache.sub_blocks != before.line_bytes)
      refuse(k, "is exclusive and takes parts of another size than the lines before it");
  }
}

}  // namespace

Contents::Contents(const Machine& machine, int variants, bool ways_matter)
    : variants_(variants, static_cast<int>(machine.caches.size())), levels_(static_cast<int>(machine.caches.size())) {
  check_order(machine);
  build(machine, ways_matter);
  unit_ = nodes_.front()->array.unit_bytes();
  unit_shift_ = std::countr_zero(unit_);
  nearest_line_ = nodes_.back()->array.line_bytes();
}

// Builds from the last level inward, so that parents exist before their children.
void Contents::build(const Machine& machine, bool ways_matter) {
  auto* const variants = variants_.several() ? &variants_ : nullptr;
  caches_of_core_.resize(static_cast<std::size_t>(machine.cores));
  for (int level = levels_ - 1; level >= 0; --level) {
    const auto& cache = machine.caches[static_cast<std::size_t>(level)];
    for (int core = 0; core < machine.cores; core += cache.shared_by) {
      auto& node = *nodes_.emplace_back(std::make_unique<CacheNode>(cache, level, variants, ways_matter));
      for (int c = core; c < std::min(core + cache.shared_by, machine.cores); ++c)
        caches_of_core_[static_cast<std::size_t>(c)][static_cast<std::size_t>(level)] = &node;
      if (level + 1 < levels_) node.parent = &cache_at(core, level + 1);
      auto& beside = (node.parent ? node.parent->before : at_memory_).caches;
      node.number = static_cast<int>(beside.size());
      beside.push_back(&node);
    }
  }
  for (auto& node : nodes_) {
    node->meeting = node->before.caches.size() > 1;
    node->knows_absence =
        node->inclusion == Inclusion::inclusive && node->array.unit_bytes() == nodes_.front()->array.unit_bytes();
    node->knows_sharers = node->knows_absence && node->before.caches.size() <= most_sharers;
    node->is_simple =
        node->before.caches.empty() && node->parent && node->array.unit_bytes() == node->parent->array.line_bytes();
  }
  count_searches_of_all();
  const auto choose = [&](Meeting& meeting) {
    const Count caches = std::accumulate(meeting.searches.begin(), meeting.searches.end(), meeting.caches.size());
    meeting.has_directory =
        meeting.caches.size() > 1 && meeting.caches.size() <= Holders::most_caches && caches > few_searches;
  };
  choose(at_memory_);
  for (auto& node : nodes_)
    if (!node->knows_sharers) choose(node->before);
}

// ---- directories

// A search of a cache that never had a line counts, too, unless it is a nearest one: a machine has many of these that a
// run does not use.
void Contents::count_searches_of_all() {
  const auto sum_up = [](Meeting& meeting) {
    meeting.searches = {};
    for (const auto* cache : meeting.caches)
      for (std::size_t level = 0; level < most_cache_levels; ++level) meeting.searches[level] += cache->searches[level];
  };
  for (auto node = nodes_.rbegin(); node != nodes_.rend(); ++node) {
    auto& it = **node;
    sum_up(it.before);
    it.searches = it.inclusion == Inclusion::inclusive ? Searches{} : it.before.searches;
    it.searches[static_cast<std::size_t>(it.level)] += it.used || it.level > 0;
  }
  sum_up(at_memory_);
}

void Contents::first_use(CacheNode& node) {
  node.used = true;
  ++used_at_[static_cast<std::size_t>(node.level)];
  if (node.level == 0) count_searches_of_all();
}

std::optional<Holders::Set> Contents::enters(Meeting& meeting, const CacheNode& own, Address address) {
  if (!meeting.holders) {
    if (meeting.first == nullptr) meeting.first = &own;
    if (meeting.first == &own) return std::nullopt;
    meeting.holders = std::make_unique<Holders>(meeting.caches.size());
    add_lines(meeting, meeting.first->number, *meeting.first);
  }
  if (meeting.holders->full()) [[unlikely]]
    meeting.holders->renew([&] {
      for (const auto* cache : meeting.caches) add_lines(meeting, cache->number, *cache);
    });
  auto holders = meeting.holders->of(number_of(address));
  holders.add(own.number);
  return holders;
}

// Adds the units of which a cache, or one before it, has a part; their holder has that number.
void Contents::add_lines(Meeting& meeting, int number, const CacheNode& node) {
  if (node.used)
    node.array.for_each_line([&](Address address) { meeting.holders->of(number_of(address)).add(number); });
  for (const auto* cache : node.before.caches) add_lines(meeting, number, *cache);
}

// ---- lines that come in and go out

void Contents::insert(CacheNode& node, const CacheArray::SetAndTag& where, Address address, std::uint8_t state,
                      int limit) {
  auto& array = node.array;
  use(node);
  CacheArray::Way way;
  if ((state & injected) || array.has_sub_blocks()) way = array.find_tag(where);
  if (way && array.find(where, address) && !(state & injected)) state |= array.state(way, address) & modified;
  if (!way) {
    way = array.room(where, limit);
    if (!way.empty()) make_room(node, way, state & injected);
  }
  array.fill(where, way, address, state);
}

void Contents::make_room_among_victims(CacheNode& node, const CacheArray::Way& way) { make_room(node, way, false); }

bool Contents::remove_before(CacheNode& node, const CacheArray::Way& way, Address address) {
  if (!node.knows_sharers) [[unlikely]]
    return remove_from_all(node, address);
  bool was_modified = false;
  for (unsigned sharers = way.sharers(); sharers != 0; sharers &= sharers - 1) {
    auto& child = *node.before.caches[static_cast<std::size_t>(std::countr_zero(sharers))];
    was_modified |= child.is_simple ? remove_line(child, address) : remove_in(child, address, node.array.line_bytes());
  }
  return was_modified;
}

bool Contents::remove_from_all(CacheNode& node, Address address) {
  bool was_modified = false;
  for_each_holder(node.before, unit_of(address),
                  [&](CacheNode& cache) { was_modified |= remove_in(cache, address, node.array.line_bytes()); });
  return was_modified;
}

bool Contents::remove_in(CacheNode& node, Address address, std::uint64_t bytes) {
  bool was_modified = false;
  for (auto at = address; at < address + bytes; at += node.array.unit_bytes()) was_modified |= remove_line(node, at);
  for (auto* cache : node.before.caches) was_modified |= remove_in(*cache, address, bytes);
  return was_modified;
}

// Removes a line (a sub-block) that an inclusive cache further out evicts; returns whether it was modified.
bool Contents::remove_line(CacheNode& node, Address address) {
  const auto way = node.array.search(address);
  if (!way) return false;
  const auto state = node.array.remove(way, address);
  ++counts_of(node).back_invalidations;
  if (state & injected) ++counts_of(node).injected_unused;
  return (state & modified) != 0;
}

bool Contents::remove_everywhere(Address unit, Count LevelCounts::* counter) {
  bool was_modified = false;
  for_each_copy(unit, [&](CacheNode& node, const CacheArray::Way& way, Address at) {
    const auto state = node.array.remove(way, at);
    was_modified |= (state & modified) != 0;
    if (counter == nullptr) return;
    counts_of(node).injected_unused += (state & injected) != 0;
    counts_of(node).*counter += counter != &LevelCounts::write_backs || (state & modified);
  });
  return was_modified;
}

void Contents::flush(Address address) {
  if (remove_everywhere(unit_of(address), &LevelCounts::write_backs)) write_to_memory();
}

void Contents::forget(Address address) { remove_everywhere(unit_of(address), nullptr); }

void Contents::forget_everything() {
  for (auto& node : nodes_) {
    node->array.clear();
    node->victims.clear();
    node->used = false;
  }
  used_at_ = {};
  const auto forget_holders = [](Meeting& meeting) {
    meeting.first = nullptr;
    meeting.holders.reset();
  };
  forget_holders(at_memory_);
  for (auto& node : nodes_) forget_holders(node->before);
  count_searches_of_all();
}

bool Contents::keeps_all_in_sets() const {
  return std::ranges::all_of(nodes_, [](const auto& node) { return node->array.keeps_all_in_sets(); });
}

void Contents::take(const Contents& other, int variant) {
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    auto &node = *nodes_[i], &its = *other.nodes_[i];
    if (its.used) {
      node.array.take(its.array, variant);
      use(node);
    }
    its.victims.for_each([&](std::uint64_t unit, Variants::Mask who) {
      if ((who >> variant & 1) != 0) node.victims.add(unit, variants_.all());
    });
  }
  for (std::size_t i = 0; i < nodes_.size(); ++i) take_holders(nodes_[i]->before, other.nodes_[i]->before);
  take_holders(at_memory_, other.at_memory_);
  watches_victims_ = other.watches_victims_;
  variants_.common() = other.variants_.tally_of(variant);
}

void Contents::take_holders(Meeting& meeting, const Meeting& other) {
  if (other.first) meeting.first = meeting.caches[static_cast<std::size_t>(other.first->number)];
  if (!other.holders) return;
  meeting.holders = std::make_unique<Holders>(meeting.caches.size());
  for (const auto* cache : meeting.caches) add_lines(meeting, cache->number, *cache);
}

Memory::Copy Contents::copy_in(int variant, int core, int level, Address address) const {
  const auto& array = cache_at(core, level).array;
  const auto where = array.locate_for(variant, address);
  const auto way = array.find(where, address);
  if (!way) return {};
  const auto state = array.state(way, address);
  return {true, (state & modified) != 0, (state & shared) != 0};
}

// ---- what is put down when it is known which variants did it

void Contents::leaves(Meeting& meeting, Address unit, int number) {
  note({Afterwards::What::left, variants_.acting(), unit, nullptr, &meeting, number});
}

void Contents::note(const Afterwards& it) {
  afterwards_.push_back(it);
  if (!variants_.several()) do_afterwards();
}

void Contents::do_afterwards() {
  for (const auto& it : afterwards_) {
    const auto who = variants_.acted_for(it.acting);
    if (it.what == Afterwards::What::left) {
      if (who == variants_.all()) it.meeting->holders->of(number_of(it.unit)).remove(it.number);
      continue;
    }
    auto& victims = it.node->victims;
    if (it.what == Afterwards::What::made_room) {
      victims.add(number_of(it.unit), who);
      continue;
    }
    if (const Variants::Mask its = victims.of(number_of(it.unit)) & who) {
      ++variants_.tally_of_group(its).levels[static_cast<std::size_t>(it.node->level)].victims_missed;
      victims.remove(number_of(it.unit), its);
    }
  }
  afterwards_.clear();
}

// ---- what is counted

Counts Contents::counts(int variant) const {
  const auto tally = variants_.tally_of(variant);
  Counts all;
  all.levels.assign(tally.levels.begin(), tally.levels.begin() + levels_);
  for (std::size_t level = 0; level < all.levels.size(); ++level) all.levels[level].snoops += tally.searches[level];
  all.dram = tally.dram;
  all.transfers = tally.transfers;
  return all;
}

}  // namespace nearfield::sim

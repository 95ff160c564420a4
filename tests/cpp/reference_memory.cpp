// See reference_memory.hpp. This is one file, although a long one, since it is read beside the description in
// memory.hpp and in its order.
#include "reference_memory.hpp"

#include <algorithm>
#include <iterator>

namespace nearfield::sim {

ReferenceMemory::ReferenceMemory(const Machine& machine)
    : machine_(machine), levels_(static_cast<int>(machine.caches.size())), caches_(machine.caches.size()) {
  for (int level = 0; level < levels_; ++level) {
    const Cache& geometry = machine_.caches[static_cast<std::size_t>(level)];
    granule_bytes_ = std::max<Address>(granule_bytes_, static_cast<Address>(geometry.line_bytes / geometry.sub_blocks));
    const auto sets = geometry.size_bytes / static_cast<std::uint64_t>(geometry.ways * geometry.line_bytes);
    for (int core = 0; core < machine.cores; core += geometry.shared_by) {
      OneCache cache;
      cache.geometry = &geometry;
      cache.level = level;
      cache.first_core = core;
      cache.last_core = std::min(core + geometry.shared_by, machine.cores) - 1;
      cache.sets.resize(sets);
      for (Set& set : cache.sets) reset(set, geometry.ways);
      caches_[static_cast<std::size_t>(level)].push_back(cache);
    }
  }
  reset_counts();
}

void ReferenceMemory::reset_counts() {
  counts_ = {};
  counts_.levels.resize(machine_.caches.size());
}

void ReferenceMemory::count_dram(Count& cause, Address bytes) {
  ++cause;
  counts_.dram.bytes += bytes;
}

// ---- one cache

void ReferenceMemory::reset(Set& set, int ways) {
  set.lines.clear();
  set.empty_ways.clear();
  for (int way = ways - 1; way >= 0; --way) set.empty_ways.push_back(way);
  set.tree.assign(static_cast<std::size_t>(ways), false);
}

Address ReferenceMemory::part_bytes(const OneCache& cache) const {
  return static_cast<Address>(cache.geometry->line_bytes / cache.geometry->sub_blocks);
}

ReferenceMemory::Set& ReferenceMemory::set_of(OneCache& cache, Address address) const {
  const Address line_number = address / static_cast<Address>(cache.geometry->line_bytes);
  return cache.sets[line_number % cache.sets.size()];
}

ReferenceMemory::Part* ReferenceMemory::find(OneCache& cache, Address address) const {
  for (Line& line : set_of(cache, address).lines)
    for (Part& part : line.parts)
      if (part.address <= address && address < part.address + part_bytes(cache)) return &part;
  return nullptr;
}

std::vector<ReferenceMemory::Part*> ReferenceMemory::find_all(OneCache& cache, Address first, Address bytes) const {
  std::vector<Part*> found;
  for (Address address = first; address < first + bytes; address += part_bytes(cache))
    if (Part* part = find(cache, address)) found.push_back(part);
  return found;
}

void ReferenceMemory::touch(OneCache& cache, Address address) const {
  Set& set = set_of(cache, address);
  const Address line_bytes = static_cast<Address>(cache.geometry->line_bytes);
  const auto line = std::find_if(set.lines.begin(), set.lines.end(),
                                 [&](const Line& l) { return l.address == address - address % line_bytes; });
  update_plru(set, line->way, cache.geometry->ways);
  set.lines.splice(set.lines.begin(), set.lines, line);
}

void ReferenceMemory::remove(OneCache& cache, Address address) const {
  const Part* gone = find(cache, address);
  Set& set = set_of(cache, address);
  for (Line& line : set.lines) line.parts.remove_if([&](const Part& part) { return &part == gone; });
  for (const Line& line : set.lines)
    if (line.parts.empty()) set.empty_ways.push_back(line.way);
  set.lines.remove_if([](const Line& line) { return line.parts.empty(); });
}

std::size_t ReferenceMemory::put(OneCache& cache, Address address, const State& state, int among_ways) {
  const Address line_bytes = static_cast<Address>(cache.geometry->line_bytes);
  const Address line_address = address - address % line_bytes;
  Set& set = set_of(cache, address);
  const auto is_it = [&](const Line& line) { return line.address == line_address; };
  Line victim;
  if (std::none_of(set.lines.begin(), set.lines.end(), is_it)) {
    Line fresh;
    fresh.address = line_address;
    fresh.way = take_way(cache, set, among_ways, victim);
    set.lines.push_front(fresh);
  }
  touch(cache, line_address);  // it is the first one now
  set.lines.front().parts.push_back({address - address % part_bytes(cache), state});
  set.lines.front().parts.sort([](const Part& a, const Part& b) { return a.address < b.address; });
  for (const Part& part : victim.parts) evict(cache, part);
  return victim.parts.size();
}

int ReferenceMemory::take_way(OneCache& cache, Set& set, int among_ways, Line& victim) const {
  const bool is_tree = cache.geometry->replacement == "tree-plru";
  const int ways = among_ways > 0 ? among_ways : cache.geometry->ways;
  auto empty = std::prev(set.empty_ways.end(), set.empty_ways.empty() ? 0 : 1);
  if (is_tree || among_ways > 0) empty = std::min_element(set.empty_ways.begin(), set.empty_ways.end());
  if (empty != set.empty_ways.end() && *empty < ways) {
    const int way = *empty;
    set.empty_ways.erase(empty);
    return way;
  }
  const int pointed = is_tree ? plru_victim(set, ways) : 0;
  const auto may_go = [&](const Line& line) { return is_tree ? line.way == pointed : line.way < ways; };
  const auto least_recent = std::find_if(set.lines.rbegin(), set.lines.rend(), may_go);
  victim = *least_recent;
  set.lines.erase(std::next(least_recent).base());
  return victim.way;
}

// The ways are the leaves under node 1, from left to right.
void ReferenceMemory::update_plru(Set& set, int way, int ways) {
  int node = 1, first = 0;
  for (int half = ways / 2; half > 0; half /= 2) {
    const bool is_right = way >= first + half;
    set.tree[static_cast<std::size_t>(node)] = !is_right;
    if (is_right) first += half;
    node = 2 * node + (is_right ? 1 : 0);
  }
}

int ReferenceMemory::plru_victim(const Set& set, int ways) {
  int node = 1, first = 0;
  for (int half = ways / 2; half > 0; half /= 2) {
    const bool is_right = set.tree[static_cast<std::size_t>(node)];
    if (is_right) first += half;
    node = 2 * node + (is_right ? 1 : 0);
  }
  return first;
}

// ---- between caches

ReferenceMemory::OneCache* ReferenceMemory::cache_on_path(int core, int level) {
  if (level == levels_) return nullptr;
  for (OneCache& cache : caches_[static_cast<std::size_t>(level)])
    if (cache.first_core <= core && core <= cache.last_core) return &cache;
  return nullptr;
}

bool ReferenceMemory::is_exclusive(int level) const {
  return machine_.caches[static_cast<std::size_t>(level)].inclusion == Inclusion::exclusive;
}

bool ReferenceMemory::is_inclusive(int level) const {
  return machine_.caches[static_cast<std::size_t>(level)].inclusion == Inclusion::inclusive;
}

bool ReferenceMemory::writes_through(int level) const {
  return machine_.caches[static_cast<std::size_t>(level)].write == WritePolicy::through;
}

std::vector<ReferenceMemory::OneCache*> ReferenceMemory::all_caches() {
  std::vector<OneCache*> result;
  for (auto& level : caches_)
    for (OneCache& cache : level) result.push_back(&cache);
  return result;
}

std::vector<ReferenceMemory::OneCache*> ReferenceMemory::caches_inside(const OneCache& cache) {
  std::vector<OneCache*> result;
  for (OneCache* inner : all_caches())
    if (inner->level < cache.level && cache.first_core <= inner->first_core && inner->first_core <= cache.last_core)
      result.push_back(inner);
  return result;
}

std::vector<ReferenceMemory::OneCache*> ReferenceMemory::other_caches_at(int core, int point) {
  std::vector<OneCache*> result;
  if (point == 0) return result;
  const OneCache* shared_cache = cache_on_path(core, point);
  const OneCache* mine = cache_on_path(core, point - 1);
  for (OneCache* cache : all_caches()) {
    const bool is_inside = cache->level < point && (!shared_cache || (shared_cache->first_core <= cache->first_core &&
                                                                      cache->first_core <= shared_cache->last_core));
    const bool is_mine = mine->first_core <= cache->first_core && cache->first_core <= mine->last_core;
    if (is_inside && !is_mine) result.push_back(cache);
  }
  return result;
}

void ReferenceMemory::evict(OneCache& from, const Part& victim) {
  bool modified = victim.state.modified;
  if (is_inclusive(from.level))
    for (OneCache* inner : caches_inside(from))
      for (const Part* part : find_all(*inner, victim.address, part_bytes(from))) {
        modified |= part->state.modified;
        ++count(*inner).back_invalidations;
        drop(*inner, part->address);
      }
  ++count(from).evictions;
  if (modified) ++count(from).write_backs;
  if (victim.state.injected_unused) ++count(from).injected_unused;

  OneCache* next = cache_on_path(from.first_core, from.level + 1);
  if (!next) {
    if (modified) count_dram(counts_.dram.writes, granule_bytes_);
  } else if (is_exclusive(next->level)) {
    insert_into_victim_cache(*next, victim.address, {modified, victim.state.shared, false});
  } else if (modified) {
    if (Part* present = find(*next, victim.address))
      present->state.modified = true;
    else
      put(*next, victim.address, {true, victim.state.shared, false});
  }
}

void ReferenceMemory::insert_into_victim_cache(OneCache& cache, Address address, const State& state) {
  if (Part* present = find(cache, address)) {
    present->state.modified |= state.modified;
    present->state.shared &= state.shared;
    touch(cache, address);
  } else {
    put(cache, address, state);
  }
}

void ReferenceMemory::drop(OneCache& cache, Address address) {
  if (find(cache, address)->state.injected_unused) ++count(cache).injected_unused;
  remove(cache, address);
}

// ---- accesses of cores

void ReferenceMemory::access(int core, Access kind, Address address, unsigned bytes) {
  const Address line_bytes = part_bytes(caches_[0][0]);
  const Address end = address + bytes;
  while (address < end) {
    const Address next = std::min(end, address - address % line_bytes + line_bytes);
    if (kind == Access::load_nontemporal || kind == Access::store_nontemporal)
      access_nontemporal(kind, address, next - address);
    else
      access_line(core, kind == Access::store, address);
    address = next;
  }
}

void ReferenceMemory::access_line(int core, bool is_store, Address address) {
  const Walk path = walk(core, is_store, address);
  const SnoopedCopies others = snoop_others(core, path.end, address);
  const bool is_at_home = machine_.links && path.end == levels_ && !others.had_line_modified;
  const bool is_supplied = !is_at_home && (path.is_supplied || others.had_line_modified);
  const bool writes_memory_only = is_store && first_write_back() == levels_;
  if (writes_memory_only) count_dram(counts_.dram.writes, granule_bytes_);
  if (is_supplied) ++counts_.transfers;
  if (path.end == levels_ && !is_supplied && !writes_memory_only) count_dram(counts_.dram.reads, granule_bytes_);

  State arriving;
  if (path.is_hit) arriving = take_line(*cache_on_path(core, path.end), address);
  if (is_store)
    store_line(core, address, path, arriving);
  else
    load_line(core, address, path, arriving);
}

void ReferenceMemory::load_line(int core, Address address, const Walk& path, State arriving) {
  std::vector<bool> is_shared(machine_.caches.size(), arriving.shared);
  for (int point = 1; point <= path.end; ++point) {
    const SnoopedCopies others = snoop_others(core, point, address);
    for (int level = 0; others.had_granule && level < point; ++level) is_shared[static_cast<std::size_t>(level)] = true;
    bool is_written = share_copies(core, point, address);
    if (point == path.end && arriving.modified && others.had_granule_modified && !others.had_line_modified &&
        !is_written) {
      count_dram(counts_.dram.writes, granule_bytes_);  // a granule has one owner
      is_written = true;
    }
    // The hit's modified data is written together with that of others, or theirs is newer.
    if (point == path.end && (is_written || others.had_line_modified)) arriving.modified = false;
  }
  for (int level = path.end - 1; level >= 0; --level) {
    if (is_exclusive(level)) continue;
    arriving.shared = is_shared[static_cast<std::size_t>(level)];
    if (arriving.modified && arriving.shared && machine_.coherence == Coherence::mesi) {
      count_dram(counts_.dram.writes, granule_bytes_);
      arriving.modified = false;
    }
    put(*cache_on_path(core, level), address, arriving);
    arriving.modified = false;  // in the outermost cache only
  }
}

void ReferenceMemory::store_line(int core, Address address, const Walk& path, State arriving) {
  const bool was_exclusive = path.is_supplied && !snoop_others(core, path.end, address).shared;
  invalidate_others(core, address);
  take_ownership(core, address, was_exclusive ? path.end : levels_);
  const int write_back_level = first_write_back();
  if (write_back_level == levels_) return;
  const int end = path.is_supplied ? std::max(path.end, write_back_level + 1) : path.end;
  arriving.shared = false;
  for (int level = end - 1; level >= write_back_level; --level) {
    if (is_exclusive(level)) continue;
    put(*cache_on_path(core, level), address, arriving);
    arriving.modified = false;  // in the outermost cache, and in the one that takes the store:
  }
  find(*cache_on_path(core, write_back_level), address)->state.modified = true;
}

int ReferenceMemory::first_write_back() const {
  int level = 0;
  while (level < levels_ && writes_through(level)) ++level;
  return level;
}

// Looks up the caches on the path, counts hits and misses, and touches hits.
ReferenceMemory::Walk ReferenceMemory::walk(int core, bool is_store, Address address) {
  const int first_end = is_store ? first_write_back() : 0;
  for (int level = 0; level <= levels_; ++level) {
    if (OneCache* cache = cache_on_path(core, level)) {
      Part* part = find(*cache, address);
      ++(part ? count(*cache).hits : count(*cache).misses);
      if (part) {
        part->state.injected_unused = false;
        touch(*cache, address);
        if (level >= first_end) return {level, true, false};
      }
    }
    if (level >= first_end && first_end < levels_ && snoop_others(core, level, address).had_line)
      return {level, false, true};
  }
  return {levels_, false, false};
}

// Returns the state that a hit in this cache gives to the caches inside it.
ReferenceMemory::State ReferenceMemory::take_line(OneCache& cache, Address address) {
  const State state = find(cache, address)->state;
  if (!is_exclusive(cache.level)) return {false, state.shared, false};
  remove(cache, address);
  return {state.modified, state.shared, false};
}

ReferenceMemory::SnoopedCopies ReferenceMemory::snoop_others(int core, int point, Address address) {
  SnoopedCopies result;
  for (OneCache* cache : other_caches_at(core, point)) {
    for (const Part* part : find_all(*cache, granule_of(address), granule_bytes_)) {
      result.had_granule = true;
      result.had_granule_modified |= part->state.modified;
      result.shared &= part->state.shared;
    }
    if (const Part* part = find(*cache, address)) {
      result.had_line = true;
      result.had_line_modified |= part->state.modified;
    }
  }
  return result;
}

bool ReferenceMemory::share_copies(int core, int point, Address address) {
  bool is_written = false;
  for (OneCache* cache : other_caches_at(core, point))
    for (Part* part : find_all(*cache, granule_of(address), granule_bytes_)) {
      part->state.shared = true;
      if (!part->state.modified || machine_.coherence == Coherence::moesi) continue;
      part->state.modified = false;
      OneCache* shared_cache = cache_on_path(core, point);
      Part* present = shared_cache ? find(*shared_cache, part->address) : nullptr;
      if (present)
        present->state.modified = true;
      else
        is_written = true;
    }
  if (is_written) count_dram(counts_.dram.writes, granule_bytes_);
  return is_written;
}

void ReferenceMemory::invalidate_others(int core, Address address) {
  for (int point = 1; point <= levels_; ++point)
    for (OneCache* cache : other_caches_at(core, point))
      for (const Part* part : find_all(*cache, granule_of(address), granule_bytes_)) {
        ++count(*cache).invalidations;
        drop(*cache, part->address);
      }
}

// The copies on the path inside `end` are no longer shared. A store into a copy that was not shared snoops no further:
// it was the only one, whatever the copies beyond it say.
void ReferenceMemory::take_ownership(int core, Address address, int end) {
  for (int level = 0; level < end; ++level) {
    Part* part = find(*cache_on_path(core, level), address);
    if (part && !part->state.shared && level >= first_write_back()) return;
    if (part) part->state.shared = false;
  }
}

void ReferenceMemory::access_nontemporal(Access kind, Address address, Address bytes) {
  if (make_clean(granule_of(address))) count_dram(counts_.dram.writes, granule_bytes_);
  for (OneCache* cache : all_caches())
    for (const Part* part : find_all(*cache, granule_of(address), granule_bytes_)) drop(*cache, part->address);
  count_dram(kind == Access::load_nontemporal ? counts_.dram.bypass_reads : counts_.dram.bypass_writes, bytes);
}

// ---- devices

// Returns whether anything had to be written.
bool ReferenceMemory::make_clean(Address granule) {
  bool any_modified = false;
  for (OneCache* cache : all_caches())
    for (Part* part : find_all(*cache, granule, granule_bytes_)) {
      if (part->state.modified) ++count(*cache).write_backs;
      any_modified |= part->state.modified;
      part->state.modified = false;
    }
  return any_modified;
}

void ReferenceMemory::remove_all(Address granule) {
  for (OneCache* cache : all_caches())
    for (const Part* part : find_all(*cache, granule, granule_bytes_)) {
      ++count(*cache).invalidations;
      drop(*cache, part->address);
    }
}

void ReferenceMemory::dma_write(Address address, std::uint64_t bytes, const InjectionTarget& target) {
  const Address end = address + bytes;
  for (Address granule = granule_of(address); granule < end; granule += granule_bytes_) {
    const bool is_whole = address <= granule && granule + granule_bytes_ <= end;
    count_dram(counts_.dram.dma_writes, granule_bytes_);
    if (target.level != InjectionTarget::memory) {
      inject(granule, target);
    } else {
      if (!is_whole && make_clean(granule)) count_dram(counts_.dram.writes, granule_bytes_);
      remove_all(granule);
    }
  }
}

void ReferenceMemory::inject(Address granule, const InjectionTarget& target) {
  const auto is_written = [&](OneCache& cache) {
    return &cache == cache_on_path(target.core, cache.level) &&
           (cache.level == target.level || (cache.level > target.level && is_inclusive(cache.level)));
  };
  // None of the old data is written back any more, whatever is evicted.
  for (OneCache* cache : all_caches())
    for (Part* part : find_all(*cache, granule, granule_bytes_))
      if (is_written(*cache)) {
        if (part->state.injected_unused) ++count(*cache).injected_unused;
        part->state = {};
      } else {
        ++count(*cache).invalidations;
        drop(*cache, part->address);
      }
  // Line by line, so that an inclusive cache has each line before its inner caches do, however few lines it can hold.
  const Address step = part_bytes(*cache_on_path(target.core, target.level));
  for (Address address = granule; address < granule + granule_bytes_; address += step)
    for (int level = levels_ - 1; level >= target.level; --level)
      if (is_written(*cache_on_path(target.core, level)))
        inject_part(*cache_on_path(target.core, level), address, target);
}

void ReferenceMemory::inject_part(OneCache& cache, Address address, const InjectionTarget& target) {
  const bool is_target = cache.level == target.level;
  std::size_t victims = 0;
  if (Part* present = find(cache, address)) {
    present->state = {false, false, is_target};
    touch(cache, address);
  } else {
    victims = put(cache, address, {false, false, is_target}, is_target ? target.ways : 0);
  }
  if (!is_target) return;
  ++count(cache).injections;
  count(cache).injected_victims += victims;
}

void ReferenceMemory::dma_read(Address address, std::uint64_t bytes) {
  const DmaRead policy = machine_.nic ? machine_.nic->read_of_modified : DmaRead::keep;
  for (Address granule = granule_of(address); granule < address + bytes; granule += granule_bytes_) {
    bool is_modified = false, is_whole = false;
    OneCache* outermost = nullptr;
    for (OneCache* cache : all_caches()) {
      const auto parts = find_all(*cache, granule, granule_bytes_);
      if (!parts.empty() && (!outermost || cache->level > outermost->level)) outermost = cache;
      is_whole |= parts.size() * part_bytes(*cache) == granule_bytes_;
      for (Part* part : parts) {
        is_modified |= part->state.modified;
        part->state.injected_unused = false;
      }
    }
    if (!is_modified && !is_whole) {
      count_dram(counts_.dram.dma_reads, granule_bytes_);
      continue;
    }
    ++count(*outermost).device_hits;
    if (is_modified && policy != DmaRead::keep) {
      make_clean(granule);
      count_dram(counts_.dram.writes, granule_bytes_);
      if (policy == DmaRead::invalidate) remove_all(granule);
    }
  }
}

// ---- scenarios

void ReferenceMemory::invalidate_range(Address address, std::uint64_t bytes) {
  for (Address granule = granule_of(address); granule < address + bytes; granule += granule_bytes_)
    for (OneCache* cache : all_caches())
      for (const Part* part : find_all(*cache, granule, granule_bytes_)) remove(*cache, part->address);
}

void ReferenceMemory::invalidate_all() {
  for (OneCache* cache : all_caches())
    for (Set& set : cache->sets) reset(set, cache->geometry->ways);
}

CopyState ReferenceMemory::copy_in(int core, int level, Address address) {
  const Part* part = find(*cache_on_path(core, level), address);
  if (!part) return {};
  return {true, part->state.modified, part->state.shared};
}

}  // namespace nearfield::sim

// See reference_memory.hpp.
#include "reference_memory.hpp"

#include <algorithm>
#include <iterator>

namespace nearfield::sim {

ReferenceMemory::ReferenceMemory(const Machine& machine)
    : machine_(machine), levels_(static_cast<int>(machine.caches.size())), caches_(machine.caches.size()) {
  for (int level = 0; level < levels_; ++level) {
    const Cache& geometry = machine_.caches[static_cast<std::size_t>(level)];
    unit_bytes_ = std::max<Address>(unit_bytes_, static_cast<Address>(geometry.line_bytes / geometry.sub_blocks));
    const auto sets = geometry.size_bytes / static_cast<std::uint64_t>(geometry.ways * geometry.line_bytes);
    for (int core = 0; core < machine.cores; core += geometry.shared_by) {
      OneCache cache;
      cache.geometry = &geometry;
      cache.level = level;
      cache.first_core = core;
      cache.last_core = std::min(core + geometry.shared_by, machine.cores) - 1;
      cache.sets.resize(sets);
      for (Set& set : cache.sets) start_anew(set, geometry.ways);
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

void ReferenceMemory::start_anew(Set& set, int ways) {
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
  point_away_from(set, line->way, cache.geometry->ways);
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
  touch(cache, line_address);  // is the first one now
  set.lines.front().parts.push_back({address - address % part_bytes(cache), state});
  set.lines.front().parts.sort([](const Part& a, const Part& b) { return a.address < b.address; });
  for (const Part& part : victim.parts) pass_on(cache, part);
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
  const int pointed = is_tree ? pointed_at(set, ways) : 0;
  const auto may_go = [&](const Line& line) { return is_tree ? line.way == pointed : line.way < ways; };
  const auto least_recent = std::find_if(set.lines.rbegin(), set.lines.rend(), may_go);
  victim = *least_recent;
  set.lines.erase(std::next(least_recent).base());
  return victim.way;
}

// The ways are the leaves under node 1, from left to right.
void ReferenceMemory::point_away_from(Set& set, int way, int ways) {
  int node = 1, first = 0;
  for (int half = ways / 2; half > 0; half /= 2) {
    const bool is_right = way >= first + half;
    set.tree[static_cast<std::size_t>(node)] = !is_right;
    if (is_right) first += half;
    node = 2 * node + (is_right ? 1 : 0);
  }
}

int ReferenceMemory::pointed_at(const Set& set, int ways) {
  int node = 1, first = 0;
  for (int half = ways / 2; half > 0; half /= 2) {
    const bool is_right = set.tree[static_cast<std::size_t>(node)];
    if (is_right) first += half;
    node = 2 * node + (is_right ? 1 : 0);
  }
  return first;
}

// ---- between caches

ReferenceMemory::OneCache* ReferenceMemory::on_way(int core, int level) {
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

std::vector<ReferenceMemory::OneCache*> ReferenceMemory::everywhere() {
  std::vector<OneCache*> result;
  for (auto& level : caches_)
    for (OneCache& cache : level) result.push_back(&cache);
  return result;
}

std::vector<ReferenceMemory::OneCache*> ReferenceMemory::before(const OneCache& cache) {
  std::vector<OneCache*> result;
  for (OneCache* inner : everywhere())
    if (inner->level < cache.level && cache.first_core <= inner->first_core && inner->first_core <= cache.last_core)
      result.push_back(inner);
  return result;
}

std::vector<ReferenceMemory::OneCache*> ReferenceMemory::others_meeting(int core, int meeting) {
  std::vector<OneCache*> result;
  if (meeting == 0) return result;
  const OneCache* met = on_way(core, meeting);
  const OneCache* mine = on_way(core, meeting - 1);
  for (OneCache* cache : everywhere()) {
    const bool comes_there = cache->level < meeting &&
                             (!met || (met->first_core <= cache->first_core && cache->first_core <= met->last_core));
    const bool is_mine = mine->first_core <= cache->first_core && cache->first_core <= mine->last_core;
    if (comes_there && !is_mine) result.push_back(cache);
  }
  return result;
}

void ReferenceMemory::pass_on(OneCache& from, const Part& victim) {
  bool modified = victim.state.modified;
  if (is_inclusive(from.level))
    for (OneCache* inner : before(from))
      for (const Part* part : find_all(*inner, victim.address, part_bytes(from))) {
        modified |= part->state.modified;
        ++count(*inner).back_invalidations;
        lose(*inner, part->address);
      }
  ++count(from).evictions;
  if (modified) ++count(from).write_backs;
  if (victim.state.injected_unused) ++count(from).injected_unused;

  OneCache* next = on_way(from.first_core, from.level + 1);
  if (!next) {
    if (modified) count_dram(counts_.dram.writes, unit_bytes_);
  } else if (is_exclusive(next->level)) {
    put_into_exclusive(*next, victim.address, {modified, victim.state.shared, false});
  } else if (modified) {
    if (Part* there = find(*next, victim.address))
      there->state.modified = true;
    else
      put(*next, victim.address, {true, victim.state.shared, false});
  }
}

void ReferenceMemory::put_into_exclusive(OneCache& cache, Address address, const State& state) {
  if (Part* there = find(cache, address)) {
    there->state.modified |= state.modified;
    there->state.shared &= state.shared;
    touch(cache, address);
  } else {
    put(cache, address, state);
  }
}

void ReferenceMemory::lose(OneCache& cache, Address address) {
  if (find(cache, address)->state.injected_unused) ++count(cache).injected_unused;
  remove(cache, address);
}

// ---- accesses of cores

void ReferenceMemory::access(int core, Access kind, Address address, unsigned bytes) {
  const Address line_bytes = part_bytes(caches_[0][0]);
  const Address end = address + bytes;
  while (address < end) {
    const Address next = std::min(end, address - address % line_bytes + line_bytes);
    if (kind == Access::load_bypass || kind == Access::store_bypass)
      access_bypass(kind, address, next - address);
    else
      access_line(core, kind == Access::store, address);
    address = next;
  }
}

void ReferenceMemory::access_line(int core, bool is_store, Address address) {
  const Walk way = walk(core, is_store, address);
  const Others others = look_at_others(core, way.end, address);
  const bool is_at_home = machine_.links && way.end == levels_ && !others.had_line_modified;
  const bool is_supplied = !is_at_home && (way.is_supplied || others.had_line_modified);
  const bool is_only_through = is_store && first_write_back() == levels_;
  if (is_only_through) count_dram(counts_.dram.writes, unit_bytes_);
  if (is_supplied) ++counts_.transfers;
  if (way.end == levels_ && !is_supplied && !is_only_through) count_dram(counts_.dram.reads, unit_bytes_);

  State arriving;
  if (way.is_hit) arriving = take_from(*on_way(core, way.end), address);
  if (is_store)
    store_line(core, address, way, arriving);
  else
    load_line(core, address, way, arriving);
}

void ReferenceMemory::load_line(int core, Address address, const Walk& way, State arriving) {
  std::vector<bool> is_shared(machine_.caches.size(), arriving.shared);
  for (int meeting = 1; meeting <= way.end; ++meeting) {
    const Others others = look_at_others(core, meeting, address);
    for (int level = 0; others.had_unit && level < meeting; ++level) is_shared[static_cast<std::size_t>(level)] = true;
    bool is_written = share_with_others(core, meeting, address);
    if (meeting == way.end && arriving.modified && others.had_unit_modified && !others.had_line_modified &&
        !is_written) {
      count_dram(counts_.dram.writes, unit_bytes_);  // of one unit there is one owner
      is_written = true;
    }
    // The hit's modified data is written together with that of others, or theirs is newer.
    if (meeting == way.end && (is_written || others.had_line_modified)) arriving.modified = false;
  }
  for (int level = way.end - 1; level >= 0; --level) {
    if (is_exclusive(level)) continue;
    arriving.shared = is_shared[static_cast<std::size_t>(level)];
    if (arriving.modified && arriving.shared && machine_.coherence == Coherence::mesi) {
      count_dram(counts_.dram.writes, unit_bytes_);
      arriving.modified = false;
    }
    put(*on_way(core, level), address, arriving);
    arriving.modified = false;  // in the outermost one only
  }
}

void ReferenceMemory::store_line(int core, Address address, const Walk& way, State arriving) {
  const bool was_alone = way.is_supplied && !look_at_others(core, way.end, address).shared;
  remove_others(core, address);
  own(core, address, was_alone ? way.end : levels_);
  const int nearest = first_write_back();
  if (nearest == levels_) return;
  const int end = way.is_supplied ? std::max(way.end, nearest + 1) : way.end;
  arriving.shared = false;
  for (int level = end - 1; level >= nearest; --level) {
    if (is_exclusive(level)) continue;
    put(*on_way(core, level), address, arriving);
    arriving.modified = false;  // in the outermost one, and in the nearest one:
  }
  find(*on_way(core, nearest), address)->state.modified = true;
}

int ReferenceMemory::first_write_back() const {
  int level = 0;
  while (level < levels_ && writes_through(level)) ++level;
  return level;
}

// Counts and touches.
ReferenceMemory::Walk ReferenceMemory::walk(int core, bool is_store, Address address) {
  const int first_end = is_store ? first_write_back() : 0;
  for (int level = 0; level <= levels_; ++level) {
    if (OneCache* cache = on_way(core, level)) {
      Part* part = find(*cache, address);
      ++(part ? count(*cache).hits : count(*cache).misses);
      if (part) {
        part->state.injected_unused = false;
        touch(*cache, address);
        if (level >= first_end) return {level, true, false};
      }
    }
    if (level >= first_end && first_end < levels_ && look_at_others(core, level, address).had_line)
      return {level, false, true};
  }
  return {levels_, false, false};
}

// Returns the state that a hit there gives to the caches before it.
ReferenceMemory::State ReferenceMemory::take_from(OneCache& cache, Address address) {
  const State state = find(cache, address)->state;
  if (!is_exclusive(cache.level)) return {false, state.shared, false};
  remove(cache, address);
  return {state.modified, state.shared, false};
}

ReferenceMemory::Others ReferenceMemory::look_at_others(int core, int meeting, Address address) {
  Others result;
  for (OneCache* cache : others_meeting(core, meeting)) {
    for (const Part* part : find_all(*cache, unit_of(address), unit_bytes_)) {
      result.had_unit = true;
      result.had_unit_modified |= part->state.modified;
      result.shared &= part->state.shared;
    }
    if (const Part* part = find(*cache, address)) {
      result.had_line = true;
      result.had_line_modified |= part->state.modified;
    }
  }
  return result;
}

bool ReferenceMemory::share_with_others(int core, int meeting, Address address) {
  bool is_written = false;
  for (OneCache* cache : others_meeting(core, meeting))
    for (Part* part : find_all(*cache, unit_of(address), unit_bytes_)) {
      part->state.shared = true;
      if (!part->state.modified || machine_.coherence == Coherence::moesi) continue;
      part->state.modified = false;
      OneCache* met = on_way(core, meeting);
      Part* there = met ? find(*met, part->address) : nullptr;
      if (there)
        there->state.modified = true;
      else
        is_written = true;
    }
  if (is_written) count_dram(counts_.dram.writes, unit_bytes_);
  return is_written;
}

void ReferenceMemory::remove_others(int core, Address address) {
  for (int meeting = 1; meeting <= levels_; ++meeting)
    for (OneCache* cache : others_meeting(core, meeting))
      for (const Part* part : find_all(*cache, unit_of(address), unit_bytes_)) {
        ++count(*cache).invalidations;
        lose(*cache, part->address);
      }
}

// The copies on the way before `end` are not shared any more. Whoever takes a store into one that was not asks nobody
// further: that one was alone, whatever those beyond it still say.
void ReferenceMemory::own(int core, Address address, int end) {
  for (int level = 0; level < end; ++level) {
    Part* part = find(*on_way(core, level), address);
    if (part && !part->state.shared && level >= first_write_back()) return;
    if (part) part->state.shared = false;
  }
}

void ReferenceMemory::access_bypass(Access kind, Address address, Address bytes) {
  if (make_clean(unit_of(address))) count_dram(counts_.dram.writes, unit_bytes_);
  for (OneCache* cache : everywhere())
    for (const Part* part : find_all(*cache, unit_of(address), unit_bytes_)) lose(*cache, part->address);
  count_dram(kind == Access::load_bypass ? counts_.dram.bypass_reads : counts_.dram.bypass_writes, bytes);
}

// ---- devices

// Whether anything had to be written.
bool ReferenceMemory::make_clean(Address unit) {
  bool any_modified = false;
  for (OneCache* cache : everywhere())
    for (Part* part : find_all(*cache, unit, unit_bytes_)) {
      if (part->state.modified) ++count(*cache).write_backs;
      any_modified |= part->state.modified;
      part->state.modified = false;
    }
  return any_modified;
}

void ReferenceMemory::remove_all(Address unit) {
  for (OneCache* cache : everywhere())
    for (const Part* part : find_all(*cache, unit, unit_bytes_)) {
      ++count(*cache).invalidations;
      lose(*cache, part->address);
    }
}

void ReferenceMemory::dma_write(Address address, std::uint64_t bytes, const Placement& placement) {
  const Address end = address + bytes;
  for (Address unit = unit_of(address); unit < end; unit += unit_bytes_) {
    const bool is_whole = address <= unit && unit + unit_bytes_ <= end;
    count_dram(counts_.dram.dma_writes, unit_bytes_);
    if (placement.level != Placement::memory) {
      inject(unit, placement);
    } else {
      if (!is_whole && make_clean(unit)) count_dram(counts_.dram.writes, unit_bytes_);
      remove_all(unit);
    }
  }
}

void ReferenceMemory::inject(Address unit, const Placement& placement) {
  const auto is_written = [&](OneCache& cache) {
    return &cache == on_way(placement.core, cache.level) &&
           (cache.level == placement.level || (cache.level > placement.level && is_inclusive(cache.level)));
  };
  // Nothing of the old data is written any more, wherever room is made.
  for (OneCache* cache : everywhere())
    for (Part* part : find_all(*cache, unit, unit_bytes_))
      if (is_written(*cache)) {
        if (part->state.injected_unused) ++count(*cache).injected_unused;
        part->state = {};
      } else {
        ++count(*cache).invalidations;
        lose(*cache, part->address);
      }
  // Line by line, so that an inclusive cache has each before those before it do, however few lines it can hold.
  const Address step = part_bytes(*on_way(placement.core, placement.level));
  for (Address address = unit; address < unit + unit_bytes_; address += step)
    for (int level = levels_ - 1; level >= placement.level; --level)
      if (is_written(*on_way(placement.core, level))) inject_part(*on_way(placement.core, level), address, placement);
}

void ReferenceMemory::inject_part(OneCache& cache, Address address, const Placement& placement) {
  const bool is_target = cache.level == placement.level;
  std::size_t victims = 0;
  if (Part* there = find(cache, address)) {
    there->state = {false, false, is_target};
    touch(cache, address);
  } else {
    victims = put(cache, address, {false, false, is_target}, is_target ? placement.ways : 0);
  }
  if (!is_target) return;
  ++count(cache).injections;
  count(cache).injected_victims += victims;
}

void ReferenceMemory::dma_read(Address address, std::uint64_t bytes) {
  const DmaRead policy = machine_.nic ? machine_.nic->read_of_modified : DmaRead::keep;
  for (Address unit = unit_of(address); unit < address + bytes; unit += unit_bytes_) {
    bool is_modified = false, is_whole = false;
    for (OneCache* cache : everywhere()) {
      const auto parts = find_all(*cache, unit, unit_bytes_);
      is_whole |= parts.size() * part_bytes(*cache) == unit_bytes_;
      for (Part* part : parts) {
        is_modified |= part->state.modified;
        part->state.injected_unused = false;
      }
    }
    if (!is_modified && !is_whole) {
      count_dram(counts_.dram.dma_reads, unit_bytes_);
    } else if (is_modified && policy != DmaRead::keep) {
      make_clean(unit);
      count_dram(counts_.dram.writes, unit_bytes_);
      if (policy == DmaRead::invalidate) remove_all(unit);
    }
  }
}

// ---- scenarios

void ReferenceMemory::forget(Address address, std::uint64_t bytes) {
  for (Address unit = unit_of(address); unit < address + bytes; unit += unit_bytes_)
    for (OneCache* cache : everywhere())
      for (const Part* part : find_all(*cache, unit, unit_bytes_)) remove(*cache, part->address);
}

void ReferenceMemory::forget_everything() {
  for (OneCache* cache : everywhere())
    for (Set& set : cache->sets) start_anew(set, cache->geometry->ways);
}

Memory::Copy ReferenceMemory::copy_in(int core, int level, Address address) {
  const Part* part = find(*on_way(core, level), address);
  if (!part) return {};
  return {true, part->state.modified, part->state.shared};
}

}  // namespace nearfield::sim

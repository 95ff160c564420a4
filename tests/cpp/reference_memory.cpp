// See reference_memory.hpp. This file is read beside the description in memory.hpp, and in its order.
#include "reference_memory.hpp"

#include <algorithm>

namespace nearfield::sim {

ReferenceMemory::ReferenceMemory(const Machine& machine)
    : machine_(machine), levels_(static_cast<int>(machine.caches.size())), caches_(machine.caches.size()) {
  for (int level = 0; level < levels_; ++level) {
    const Cache& geometry = machine_.caches[static_cast<std::size_t>(level)];
    granule_bytes_ = std::max<Address>(granule_bytes_, static_cast<Address>(geometry.line_bytes / geometry.sub_blocks));
    for (int core = 0; core < machine.cores; core += geometry.shared_by)
      caches_[static_cast<std::size_t>(level)].emplace_back(geometry, level, core,
                                                            std::min(core + geometry.shared_by, machine.cores) - 1);
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

// ---- between caches

ReferenceCache* ReferenceMemory::cache_on_path(int core, int level) {
  if (level == levels_) return nullptr;
  for (ReferenceCache& cache : caches_[static_cast<std::size_t>(level)])
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

std::vector<ReferenceCache*> ReferenceMemory::all_caches() {
  std::vector<ReferenceCache*> result;
  for (auto& level : caches_)
    for (ReferenceCache& cache : level) result.push_back(&cache);
  return result;
}

std::vector<ReferenceCache*> ReferenceMemory::caches_inside(const ReferenceCache& cache) {
  std::vector<ReferenceCache*> result;
  for (ReferenceCache* inner : all_caches())
    if (inner->level < cache.level && cache.first_core <= inner->first_core && inner->first_core <= cache.last_core)
      result.push_back(inner);
  return result;
}

std::vector<ReferenceCache*> ReferenceMemory::other_caches_at(int core, int point) {
  std::vector<ReferenceCache*> result;
  if (point == 0) return result;
  const ReferenceCache* shared_cache = cache_on_path(core, point);
  const ReferenceCache* mine = cache_on_path(core, point - 1);
  for (ReferenceCache* cache : all_caches()) {
    const bool is_inside = cache->level < point && (!shared_cache || (shared_cache->first_core <= cache->first_core &&
                                                                      cache->first_core <= shared_cache->last_core));
    const bool is_mine = mine->first_core <= cache->first_core && cache->first_core <= mine->last_core;
    if (is_inside && !is_mine) result.push_back(cache);
  }
  return result;
}

std::size_t ReferenceMemory::put(ReferenceCache& cache, Address address, const State& state, int among_ways) {
  const std::list<Part> victims = cache.put(address, state, among_ways);
  for (const Part& part : victims) evict(cache, part);
  return victims.size();
}

void ReferenceMemory::evict(ReferenceCache& from, const Part& victim) {
  bool modified = victim.state.modified;
  if (is_inclusive(from.level))
    for (ReferenceCache* inner : caches_inside(from))
      for (const Part* part : inner->find_all(victim.address, from.part_bytes())) {
        modified |= part->state.modified;
        ++count(*inner).back_invalidations;
        drop(*inner, part->address);
      }
  ++count(from).evictions;
  if (modified) ++count(from).write_backs;
  if (victim.state.injected_unused) ++count(from).injected_unused;

  ReferenceCache* next = cache_on_path(from.first_core, from.level + 1);
  if (!next) {
    if (modified) count_dram(counts_.dram.writes, granule_bytes_);
  } else if (is_exclusive(next->level)) {
    insert_into_victim_cache(*next, victim.address, {modified, victim.state.shared, false});
  } else if (modified) {
    if (Part* present = next->find(victim.address))
      present->state.modified = true;
    else
      put(*next, victim.address, {true, victim.state.shared, false});
  }
}

void ReferenceMemory::insert_into_victim_cache(ReferenceCache& cache, Address address, const State& state) {
  if (Part* present = cache.find(address)) {
    present->state.modified |= state.modified;
    present->state.shared &= state.shared;
    cache.touch(address);
  } else {
    put(cache, address, state);
  }
}

void ReferenceMemory::drop(ReferenceCache& cache, Address address) {
  if (cache.find(address)->state.injected_unused) ++count(cache).injected_unused;
  cache.remove(address);
}

// ---- accesses of cores

void ReferenceMemory::access(int core, Access kind, Address address, unsigned bytes) {
  const Address line_bytes = caches_[0][0].part_bytes();
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
  const int first_write_back_level = first_write_back();
  if (first_write_back_level == levels_) return;
  const int end = path.is_supplied ? std::max(path.end, first_write_back_level + 1) : path.end;
  arriving.shared = false;
  for (int level = end - 1; level >= first_write_back_level; --level) {
    if (is_exclusive(level)) continue;
    put(*cache_on_path(core, level), address, arriving);
    arriving.modified = false;  // in the outermost cache, and in the one that takes the store:
  }
  cache_on_path(core, first_write_back_level)->find(address)->state.modified = true;
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
    if (ReferenceCache* cache = cache_on_path(core, level)) {
      Part* part = cache->find(address);
      ++(part ? count(*cache).hits : count(*cache).misses);
      if (part) {
        part->state.injected_unused = false;
        cache->touch(address);
        if (level >= first_end) return {level, true, false};
      }
    }
    if (level >= first_end && first_end < levels_ && snoop_others(core, level, address).had_line)
      return {level, false, true};
  }
  return {levels_, false, false};
}

// Returns the state that a hit in this cache gives to the caches inside it.
ReferenceMemory::State ReferenceMemory::take_line(ReferenceCache& cache, Address address) {
  const State state = cache.find(address)->state;
  if (!is_exclusive(cache.level)) return {false, state.shared, false};
  cache.remove(address);
  return {state.modified, state.shared, false};
}

ReferenceMemory::SnoopedCopies ReferenceMemory::snoop_others(int core, int point, Address address) {
  SnoopedCopies result;
  for (ReferenceCache* cache : other_caches_at(core, point)) {
    for (const Part* part : cache->find_all(granule_of(address), granule_bytes_)) {
      result.had_granule = true;
      result.had_granule_modified |= part->state.modified;
      result.shared &= part->state.shared;
    }
    if (const Part* part = cache->find(address)) {
      result.had_line = true;
      result.had_line_modified |= part->state.modified;
    }
  }
  return result;
}

bool ReferenceMemory::share_copies(int core, int point, Address address) {
  bool is_written = false;
  for (ReferenceCache* cache : other_caches_at(core, point))
    for (Part* part : cache->find_all(granule_of(address), granule_bytes_)) {
      part->state.shared = true;
      if (!part->state.modified || machine_.coherence == Coherence::moesi) continue;
      part->state.modified = false;
      ReferenceCache* shared_cache = cache_on_path(core, point);
      Part* present = shared_cache ? shared_cache->find(part->address) : nullptr;
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
    for (ReferenceCache* cache : other_caches_at(core, point))
      for (const Part* part : cache->find_all(granule_of(address), granule_bytes_)) {
        ++count(*cache).invalidations;
        drop(*cache, part->address);
      }
}

// The copies on the path inside `end` are no longer shared. A store into a copy that was not shared snoops no further:
// it was the only one, whatever the copies beyond it say.
void ReferenceMemory::take_ownership(int core, Address address, int end) {
  for (int level = 0; level < end; ++level) {
    Part* part = cache_on_path(core, level)->find(address);
    if (part && !part->state.shared && level >= first_write_back()) return;
    if (part) part->state.shared = false;
  }
}

void ReferenceMemory::access_nontemporal(Access kind, Address address, Address bytes) {
  if (make_clean(granule_of(address))) count_dram(counts_.dram.writes, granule_bytes_);
  for (ReferenceCache* cache : all_caches())
    for (const Part* part : cache->find_all(granule_of(address), granule_bytes_)) drop(*cache, part->address);
  count_dram(kind == Access::load_nontemporal ? counts_.dram.bypass_reads : counts_.dram.bypass_writes, bytes);
}

// ---- devices

// Returns whether anything had to be written.
bool ReferenceMemory::make_clean(Address granule) {
  bool any_modified = false;
  for (ReferenceCache* cache : all_caches())
    for (Part* part : cache->find_all(granule, granule_bytes_)) {
      if (part->state.modified) ++count(*cache).write_backs;
      any_modified |= part->state.modified;
      part->state.modified = false;
    }
  return any_modified;
}

void ReferenceMemory::remove_all(Address granule) {
  for (ReferenceCache* cache : all_caches())
    for (const Part* part : cache->find_all(granule, granule_bytes_)) {
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
  const auto is_written = [&](ReferenceCache& cache) {
    return &cache == cache_on_path(target.core, cache.level) &&
           (cache.level == target.level || (cache.level > target.level && is_inclusive(cache.level)));
  };
  // None of the old data is written back any more, whatever is evicted.
  for (ReferenceCache* cache : all_caches())
    for (Part* part : cache->find_all(granule, granule_bytes_))
      if (is_written(*cache)) {
        if (part->state.injected_unused) ++count(*cache).injected_unused;
        part->state = {};
      } else {
        ++count(*cache).invalidations;
        drop(*cache, part->address);
      }
  // Line by line, so that an inclusive cache has each line before its inner caches do, however few lines it can hold.
  const Address step = cache_on_path(target.core, target.level)->part_bytes();
  for (Address address = granule; address < granule + granule_bytes_; address += step)
    for (int level = levels_ - 1; level >= target.level; --level)
      if (is_written(*cache_on_path(target.core, level)))
        inject_part(*cache_on_path(target.core, level), address, target);
}

void ReferenceMemory::inject_part(ReferenceCache& cache, Address address, const InjectionTarget& target) {
  const bool is_target = cache.level == target.level;
  std::size_t victims = 0;
  if (Part* present = cache.find(address)) {
    present->state = {false, false, is_target};
    cache.touch(address);
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
    ReferenceCache* outermost = nullptr;
    for (ReferenceCache* cache : all_caches()) {
      const auto parts = cache->find_all(granule, granule_bytes_);
      if (!parts.empty() && (!outermost || cache->level > outermost->level)) outermost = cache;
      is_whole |= parts.size() * cache->part_bytes() == granule_bytes_;
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
    for (ReferenceCache* cache : all_caches())
      for (const Part* part : cache->find_all(granule, granule_bytes_)) cache->remove(part->address);
}

void ReferenceMemory::invalidate_all() {
  for (ReferenceCache* cache : all_caches()) cache->remove_all();
}

CopyState ReferenceMemory::cached_copy_state(int core, int level, Address address) {
  const Part* part = cache_on_path(core, level)->find(address);
  if (!part) return {};
  return {true, part->state.modified, part->state.shared};
}

}  // namespace nearfield::sim

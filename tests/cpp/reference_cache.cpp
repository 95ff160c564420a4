#include "reference_cache.hpp"

#include <algorithm>
#include <iterator>

namespace nearfield::sim {

ReferenceCache::ReferenceCache(const Cache& geometry, int level_, int first_core_, int last_core_)
    : level(level_), first_core(first_core_), last_core(last_core_), geometry_(&geometry) {
  sets_.resize(geometry.size_bytes / static_cast<std::uint64_t>(geometry.ways * geometry.line_bytes));
  remove_all();
}

void ReferenceCache::remove_all() {
  for (Set& set : sets_) {
    set.lines.clear();
    set.empty_ways.clear();
    for (int way = geometry_->ways - 1; way >= 0; --way) set.empty_ways.push_back(way);
    set.tree.assign(static_cast<std::size_t>(geometry_->ways), false);
  }
}

ReferenceCache::Set& ReferenceCache::set_of(Address address) {
  const Address line_number = address / static_cast<Address>(geometry_->line_bytes);
  return sets_[line_number % sets_.size()];
}

ReferenceCache::Part* ReferenceCache::find(Address address) {
  for (Line& line : set_of(address).lines)
    for (Part& part : line.parts)
      if (part.address <= address && address < part.address + part_bytes()) return &part;
  return nullptr;
}

std::vector<ReferenceCache::Part*> ReferenceCache::find_all(Address first, Address bytes) {
  std::vector<Part*> found;
  for (Address address = first; address < first + bytes; address += part_bytes())
    if (Part* part = find(address)) found.push_back(part);
  return found;
}

void ReferenceCache::touch(Address address) {
  Set& set = set_of(address);
  const Address line_bytes = static_cast<Address>(geometry_->line_bytes);
  const auto line = std::find_if(set.lines.begin(), set.lines.end(),
                                 [&](const Line& l) { return l.address == address - address % line_bytes; });
  update_plru(set, line->way, geometry_->ways);
  set.lines.splice(set.lines.begin(), set.lines, line);
}

void ReferenceCache::remove(Address address) {
  const Part* gone = find(address);
  Set& set = set_of(address);
  for (Line& line : set.lines) line.parts.remove_if([&](const Part& part) { return &part == gone; });
  for (const Line& line : set.lines)
    if (line.parts.empty()) set.empty_ways.push_back(line.way);
  set.lines.remove_if([](const Line& line) { return line.parts.empty(); });
}

std::list<ReferenceCache::Part> ReferenceCache::put(Address address, const State& state, int among_ways) {
  const Address line_bytes = static_cast<Address>(geometry_->line_bytes);
  const Address line_address = address - address % line_bytes;
  Set& set = set_of(address);
  const auto is_it = [&](const Line& line) { return line.address == line_address; };
  Line victim;
  if (std::none_of(set.lines.begin(), set.lines.end(), is_it)) {
    Line fresh;
    fresh.address = line_address;
    fresh.way = take_way(set, among_ways, victim);
    set.lines.push_front(fresh);
  }
  touch(line_address);  // it is the first one now
  set.lines.front().parts.push_back({address - address % part_bytes(), state});
  set.lines.front().parts.sort([](const Part& a, const Part& b) { return a.address < b.address; });
  return victim.parts;
}

int ReferenceCache::take_way(Set& set, int among_ways, Line& victim) const {
  const bool is_tree = geometry_->replacement == "tree-plru";
  const int ways = among_ways > 0 ? among_ways : geometry_->ways;
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
void ReferenceCache::update_plru(Set& set, int way, int ways) {
  int node = 1, first = 0;
  for (int half = ways / 2; half > 0; half /= 2) {
    const bool is_right = way >= first + half;
    set.tree[static_cast<std::size_t>(node)] = !is_right;
    if (is_right) first += half;
    node = 2 * node + (is_right ? 1 : 0);
  }
}

int ReferenceCache::plru_victim(const Set& set, int ways) {
  int node = 1, first = 0;
  for (int half = ways / 2; half > 0; half /= 2) {
    const bool is_right = set.tree[static_cast<std::size_t>(node)];
    if (is_right) first += half;
    node = 2 * node + (is_right ? 1 : 0);
  }
  return first;
}

}  // namespace nearfield::sim

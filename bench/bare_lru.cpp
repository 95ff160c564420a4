// The yardstick of sim_memory.py: a loop through three levels of LRU sets as short as one can write it, which knows
// neither time, coherence, write-backs nor TLBs. The geometry is POWER5's. Returns how many accesses missed every level.
#include <cstdint>
#include <utility>
#include <vector>

namespace {

struct Level {
  Level(std::uint64_t sets, int ways) : sets_(sets), ways_(ways), lines_(sets * static_cast<std::uint64_t>(ways)) {}

  bool hits(std::uint64_t line) {
    std::uint32_t* set = &lines_[line % sets_ * static_cast<std::uint64_t>(ways_)];
    const auto wanted = static_cast<std::uint32_t>(line + 1);
    if (set[0] == wanted) return true;
    int way = 1;
    while (way < ways_ && set[way] != wanted) ++way;
    const bool found = way < ways_;
    for (way -= !found; way > 0; --way) set[way] = set[way - 1];
    set[0] = wanted;
    return found;
  }

 private:
  std::uint64_t sets_;
  int ways_;
  std::vector<std::uint32_t> lines_;  // of each set, the youngest first
};

struct Caches {
  Level first{64, 4}, second{1536, 10}, third{24576, 12};

  bool misses(std::uint64_t address) {
    const std::uint64_t line = address / 128;
    return !first.hits(line) && !second.hits(line) && !third.hits(line);
  }
};

}  // namespace

extern "C" {
void* bare_caches() { return new Caches; }
std::uint64_t bare_random(void* caches, const std::uint64_t* addresses, std::uint64_t count) {
  std::uint64_t missed = 0;
  for (std::uint64_t i = 0; i < count; ++i) missed += static_cast<Caches*>(caches)->misses(addresses[i]);
  return missed;
}
std::uint64_t bare_sweep(void* caches, std::uint64_t count) {
  std::uint64_t missed = 0;
  for (std::uint64_t i = 0; i < count; ++i) missed += static_cast<Caches*>(caches)->misses(8 * i);
  return missed;
}
}

#include "sim/shards.hpp"

#include <cstring>

namespace nearfield::sim {

NodeRange Shards::part_of(int nodes) const {
  const auto begin = [&](long shard) { return static_cast<int>(shard * nodes / count_); };
  return {begin(number_), begin(number_ + 1)};
}

std::vector<std::string> Shards::exchange(const std::string& mine) { return exchange(mine, never); }

void Shards::fail(Ps when) { exchange("", when); }

void Shards::leave() noexcept {
  if (over_) return;
  try {
    fail(-never);
  } catch (...) {  // another one has failed, too
  }
}

// Before what a shard gives stands when it failed: never, or a time.
std::vector<std::string> Shards::exchange(const std::string& mine, Ps failed) {
  if (count_ == 1) return {mine};
  std::string given(reinterpret_cast<const char*>(&failed), sizeof failed);
  given += mine;
  over_ = true;  // if this throws
  std::vector<std::string> all = exchange_(given);
  Ps first = never;
  int who = number_;
  for (int shard = 0; shard < count_; ++shard) {
    std::string& its = all.at(static_cast<std::size_t>(shard));
    Ps when;
    std::memcpy(&when, its.data(), sizeof when);
    its.erase(0, sizeof when);
    if (when < first) first = when, who = shard;
  }
  over_ = first < never;
  if (over_ && who != number_) throw EndedElsewhere("shard " + std::to_string(who) + " has failed");
  return all;
}

}  // namespace nearfield::sim

#include "sim/engine/shards.hpp"

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
  } catch (...) {  // another shard has failed, too
  }
}

// Exchanges `mine` with all shards. Each contribution is preceded by the time at which its shard failed, or by `never`.
std::vector<std::string> Shards::exchange(const std::string& mine, Ps failed) {
  if (count_ == 1) return {mine};
  std::string packed(reinterpret_cast<const char*>(&failed), sizeof failed);
  packed += mine;
  over_ = true;  // stays so if this throws
  std::vector<std::string> all = exchange_(packed);
  Ps first = never;
  int failed_shard = number_;
  for (int shard = 0; shard < count_; ++shard) {
    std::string& payload = all.at(static_cast<std::size_t>(shard));
    Ps when;
    std::memcpy(&when, payload.data(), sizeof when);
    payload.erase(0, sizeof when);
    if (when < first) first = when, failed_shard = shard;
  }
  over_ = first < never;
  if (over_ && failed_shard != number_)
    throw RemoteShardFailed("shard " + std::to_string(failed_shard) + " has failed");
  return all;
}

}  // namespace nearfield::sim

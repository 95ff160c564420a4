#include "sim/engine/shards.hpp"

#include <cstring>

namespace nearfield::sim {

NodeRange Shards::nodes_of_this_shard(int nodes) const {
  const auto begin = [&](long shard) { return static_cast<int>(shard * nodes / num_shards_); };
  return {begin(shard_number_), begin(shard_number_ + 1)};
}

std::vector<std::string> Shards::exchange(const std::string& contribution) { return exchange(contribution, never); }

void Shards::report_failure(Ps when) { exchange("", when); }

void Shards::leave_run() noexcept {
  if (is_run_over_) return;
  try {
    report_failure(-never);
  } catch (...) {  // another shard has failed, too
  }
}

// Exchanges `contribution` with all shards. Each contribution is preceded by the simulated time at which its shard
// failed, or by `never`.
std::vector<std::string> Shards::exchange(const std::string& contribution, Ps failure_time) {
  if (num_shards_ == 1) return {contribution};
  std::string packed(reinterpret_cast<const char*>(&failure_time), sizeof failure_time);
  packed += contribution;
  is_run_over_ = true;  // stays so if this throws
  std::vector<std::string> contributions = allgather_(packed);
  Ps earliest_failure = never;
  int failed_shard = shard_number_;
  for (int shard = 0; shard < num_shards_; ++shard) {
    std::string& payload = contributions.at(static_cast<std::size_t>(shard));
    Ps when;
    std::memcpy(&when, payload.data(), sizeof when);
    payload.erase(0, sizeof when);
    if (when < earliest_failure) earliest_failure = when, failed_shard = shard;
  }
  is_run_over_ = earliest_failure < never;
  if (is_run_over_ && failed_shard != shard_number_)
    throw RemoteShardFailed("shard " + std::to_string(failed_shard) + " has failed");
  return contributions;
}

}  // namespace nearfield::sim

// Streams that a test builds, and their replay on a small simulated cluster.
#pragma once

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "sim/run/replay/run.hpp"
#include "stream_builder.hpp"
#include "test_machine.hpp"

namespace nearfield::sim {

using Streams = std::vector<StreamBuilder>;

constexpr std::uint64_t heap = 0x5555'0000'0000;
constexpr std::uint64_t large = 5000;  // above all eager limits

inline stream::Data data(std::uint64_t bytes, std::uint64_t address = heap) {
  return {address, bytes, StreamBuilder::bytes};
}

inline Streams streams(unsigned ranks) {
  Streams all;
  for (unsigned r = 0; r < ranks; ++r) all.emplace_back(r, ranks);
  return all;
}

inline ClusterOptions cluster(int nodes, int ranks_per_node) {
  ClusterOptions options;
  options.nodes = nodes;
  options.ranks_per_node = ranks_per_node;
  options.placement_policy_names = {"memory", "header-payload"};
  options.memory_slowdown = {1, 2.5, 5, 7.5};
  return options;
}

using Flops = std::function<float(std::uint32_t site)>;

inline replay::ReplayResult run(Streams all, const ClusterOptions& options, const replay::ReplayOptions& which = {},
                                const Flops& flops = {}, const Machine& machine = test_machine()) {
  std::vector<replay::RankStream> sources;
  for (auto& one : all)
    sources.push_back({&one, [again = one] { return std::make_unique<StreamBuilder>(again); }, flops});
  return replay::run_replay(machine, options, sources, which);
}

inline std::string problem_of(const Streams& all, const ClusterOptions& options) {
  try {
    run(all, options);
    return "";
  } catch (const std::exception& problem) {
    return problem.what();
  }
}

}  // namespace nearfield::sim

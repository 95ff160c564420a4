#include "sim/collectives/measure.hpp"

#include <memory>
#include <stdexcept>

#include "sim/collectives/on_rank.hpp"

namespace nearfield::sim {
namespace {

constexpr int tag = 1 << 20;

// One rank's part of the benchmark.
struct Part {
  std::unique_ptr<RankCommunicator> all;
  Call call;
};

Task<> set_up(Rank& rank, const CollectiveSpec& spec, const CollectiveRequest& request, Part& part) {
  part.all = std::make_unique<RankCommunicator>(rank, tag);
  part.call = {0, 0, request.bytes, request.root};
  const CallSizes sizes = spec.sizes(rank.rank(), rank.size(), part.call);
  part.call.in = rank.allocate(sizes.in_bytes);
  part.call.out = rank.allocate(sizes.out_bytes);
  co_await rank.write(part.call.in, sizes.in_bytes);
}

Task<> call_once(Rank& rank, const CollectiveSpec& spec, Part& part) {
  co_await rank.line_up();
  rank.start();
  co_await spec.run(*part.all, part.call);
  rank.stop();
}

CollectiveRepetition repetition(Outcome&& outcome) {
  Clock start = outcome.ranks.front().marks.front().start, stop = start;
  for (const RankOutcome& rank : outcome.ranks) {
    start = later(start, rank.marks.front().start);
    stop = later(stop, rank.marks.front().stop);
  }
  return {stop - start, std::move(outcome.variants), outcome.events, outcome.messages, outcome.bytes};
}

}  // namespace

std::vector<CollectiveRepetition> measure_collective(Cluster& cluster, const CollectiveRequest& request,
                                                     const std::function<void()>& between) {
  const CollectiveSpec& spec = find_collective(request.collective);
  if (request.root < 0 || request.root >= cluster.ranks())
    throw std::invalid_argument("root: from 0 to " + std::to_string(cluster.ranks() - 1) + ", not " +
                                std::to_string(request.root));
  std::vector<Part> parts(static_cast<std::size_t>(cluster.ranks()));
  const auto part = [&](const Rank& rank) -> Part& { return parts[static_cast<std::size_t>(rank.rank())]; };
  between();
  cluster.run([&](Rank& rank) { return set_up(rank, spec, request, part(rank)); });
  std::vector<CollectiveRepetition> repetitions;
  for (int i = 0; i < request.repetitions; ++i) {
    between();
    repetitions.push_back(repetition(cluster.run([&](Rank& rank) { return call_once(rank, spec, part(rank)); })));
  }
  return repetitions;
}

}  // namespace nearfield::sim

#include "sim/run/workload.hpp"

namespace nearfield::sim {
namespace {

Task<> run_measured(Rank& rank, Workload& workload) {
  co_await rank.barrier();
  rank.start_mark();
  co_await workload.run(rank);
  rank.stop_mark();
}

Repetition make_repetition(Outcome&& outcome) {
  ConfigClock start = outcome.ranks.front().marks.front().start, stop = start;
  for (const RankOutcome& rank : outcome.ranks) {
    start = later(start, rank.marks.front().start);
    stop = later(stop, rank.marks.front().stop);
  }
  std::vector<TimeInCalls> time_in_calls;
  for (const RankOutcome& rank : outcome.ranks) time_in_calls.push_back(rank.time_in_calls);
  return {stop - start,   std::move(time_in_calls), std::move(outcome.variants),
          outcome.events, outcome.messages,         outcome.bytes};
}

}  // namespace

std::vector<Repetition> measure_workload(Cluster& cluster, Workload& workload, int repetitions) {
  cluster.run([&](Rank& rank) { return workload.set_up(rank); });
  std::vector<Repetition> result;
  for (int i = 0; i < repetitions; ++i)
    result.push_back(make_repetition(cluster.run([&](Rank& rank) { return run_measured(rank, workload); })));
  return result;
}

}  // namespace nearfield::sim

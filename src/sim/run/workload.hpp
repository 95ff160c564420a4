// A workload to measure on a simulated cluster: a program for every rank, set up once and then run repeatedly, each
// time after a barrier. Cache contents persist between runs. Collectives (collective_workload.hpp) and applications
// (app/) are workloads.
#pragma once

#include <vector>

#include "sim/run/cluster.hpp"

namespace nearfield::sim {

class Workload {
 public:
  virtual ~Workload() = default;
  // Is called once for every rank, and is not measured: allocates and writes the program's data.
  virtual Task<> set_up(Rank& rank) = 0;
  virtual Task<> run(Rank& rank) = 0;
};

struct Repetition {
  ConfigClock time;                        // from the barrier until the last rank is done
  std::vector<TimeInCalls> time_in_calls;  // time in MPI calls, of every rank
  std::vector<VariantOutcome> variants;
  std::uint64_t events = 0, messages = 0, network_bytes = 0;
};

std::vector<Repetition> measure_workload(Cluster& cluster, Workload& workload, int repetitions);

}  // namespace nearfield::sim

// The common part of scenarios of two ranks: a cluster with the pair at its placement, idle ranks on all nodes between
// the two, and a warm-up after which the one-time initialization of the MPI library is complete.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sim/run/cluster.hpp"
#include "sim/run/scenario.hpp"

namespace nearfield::sim {

// One rank of the pair.
struct PairSide {
  Rank& rank;
  int peer;
  bool is_sender;  // this rank is the sender, which begins
};

struct PairMarks {
  std::vector<Mark> sender, receiver;
};

// Runs `program` on both ranks of the pair, after a warm-up of short messages that uses all entries of queues and
// buffers. All other ranks only enter the program's barriers; `barriers` is the number of barriers.
PairMarks run_pair(const SimulationJob& job, int barriers, const std::function<Task<>(const PairSide&)>& program);

// Returns the number of repetitions of a case after which all buffers of the MPI library, which are used in turn, are
// warm.
int repetitions_for(std::int64_t size_bytes);

// Returns the reason why this placement is impossible on the machine; empty if it is possible.
std::string unsupported_placement(const Machine& machine, const PairPlacement& place);

ConfigClock elapsed_time(const Mark& mark);
ConfigClock elapsed_time(const Mark& from, const Mark& to);  // from the start of one mark to the end of another

// Add counts under the names that the probe gives to hardware counters; `prefix` names the MPI call to which the counts
// belong.
void add_counters(Results& results, const Machine& machine, const std::string& side, const PerfCounters& counters);
void add_call_counters(Results& results, const std::string& prefix, const std::string& side, const Machine& machine,
                       const PerfCounters& counters);

BufferState parse_buffer_state(const std::string& name);

}  // namespace nearfield::sim

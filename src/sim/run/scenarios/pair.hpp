// The common part of scenarios of two ranks: a cluster with the pair at its placement, idle nodes between the two, and
// a warm-up after which the MPI's one-time initialisation is done.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sim/run/cluster.hpp"
#include "sim/run/scenario.hpp"

namespace nearfield::sim {

// One of the two ranks.
struct Side {
  Rank& rank;
  int peer;
  bool first;  // the sender, which begins
};

struct PairMarks {
  std::vector<Mark> sender, receiver;
};

// Runs `program` on both sides after a warm-up of short messages that uses all entries of queues and buffers. Other
// ranks only enter the program's barriers; `barriers` is their number.
PairMarks run_pair(const Job& job, int barriers, const std::function<Task<>(const Side&)>& program);

// Returns the number of repetitions of a case after which all of the MPI's buffers, used in turn, are warm.
int repetitions(std::int64_t size_bytes);

// Returns why the machine has no such placement; empty if it has.
std::string missing_place(const Machine& machine, const Place& place);

ConfigClock elapsed(const Mark& mark);
ConfigClock elapsed(const Mark& from, const Mark& to);  // from the start of one to the end of the other

// Add counts under the names of a live probe's hardware counters, with `prefix` for those of one call.
void add_counters(Results& results, const Machine& machine, const std::string& side, const PerfCounters& counters);
void add_call_counters(Results& results, const std::string& prefix, const std::string& side, const Machine& machine,
                       const PerfCounters& counters);

BufferState state_named(const std::string& name);

}  // namespace nearfield::sim

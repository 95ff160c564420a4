// The common part of scenarios of two ranks: a cluster with the pair at its place, nodes between the two idle, and a
// start in which all that an MPI makes once has been made.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sim/cluster.hpp"
#include "sim/scenario.hpp"

namespace nearfield::sim {

// One of the two ranks.
struct Side {
  Rank& rank;
  int peer;
  bool first;  // the sender: it begins
};

struct PairMarks {
  std::vector<Mark> sender, receiver;
};

// Runs `program` on both sides after as many short messages as it takes until queues and buffers go round. Others only
// line up, as often as the program does.
PairMarks run_pair(const Job& job, int line_ups, const std::function<Task<>(const Side&)>& program);

// Returns how often a case is repeated until buffers of the MPI, which take turns, have all been used.
int repetitions(std::int64_t size_bytes);

// Returns what the machine lacks for such a place; empty if it has one.
std::string no_such_place(const Machine& machine, const Place& place);

Clock elapsed(const Mark& mark);
Clock elapsed(const Mark& from, const Mark& to);  // from the start of one to the end of the other

// Adds counts under the names of a live probe's hardware counters, with `prefix` for those of one call.
void add_counters(Results& results, const Machine& machine, const std::string& side, const Seen& seen);
void add_call_counters(Results& results, const std::string& prefix, const std::string& side, const Machine& machine,
                       const Seen& seen);

BufferState state_named(const std::string& name);

}  // namespace nearfield::sim

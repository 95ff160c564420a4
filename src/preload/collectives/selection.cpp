#include "preload/collectives/selection.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <string_view>

#include "base/export.h"

namespace nearfield::collectives {
namespace {

constexpr std::string_view operation_names[num_operations] = {
    "barrier", "bcast", "gather", "scatter", "reduce", "allgather", "alltoall", "allreduce", "reduce_scatter", "scan"};
constexpr std::string_view algorithm_names[] = {"flat",     "whole",   "slices", "grouped",
                                                "doubling", "leaders", "lanes",  "mpi"};

template <std::size_t count>
int index_of_name(const std::string_view (&names)[count], std::string_view name) {
  const auto found = std::find(names, names + count, name);
  return found == names + count ? -1 : static_cast<int>(found - names);
}

bool has_algorithm(Operation operation, Algorithm algorithm) {
  const auto is_one_of = [operation](auto... names) { return ((operation == names) || ...); };
  using enum Operation;
  switch (algorithm) {
    case Algorithm::whole:
      return operation == allreduce;
    case Algorithm::slices:
      return is_one_of(allreduce, bcast);
    case Algorithm::grouped:
      return is_one_of(allreduce, bcast, barrier);
    case Algorithm::doubling:
      return is_one_of(allreduce, barrier, reduce, allgather, alltoall);
    case Algorithm::leaders:
      return is_one_of(allreduce, bcast, barrier, reduce);
    case Algorithm::lanes:
      return is_one_of(allreduce, allgather, alltoall);
    default:
      return true;
  }
}

bool is_multi_node_algorithm(Algorithm algorithm) {
  return algorithm == Algorithm::leaders || algorithm == Algorithm::lanes;
}

// The defaults for communicators that span nodes: algorithms that send fewer messages between nodes, or copy less
// inside a node, on any network. For long data, these algorithms send everything through one rank or copy it once more,
// while the MPI library's own algorithms overlap communication between nodes with copies inside a node; which of them
// is faster is unknown without a measurement, so the default is the MPI library's algorithm.
constexpr std::string_view multi_node_defaults[] = {
    "barrier@2x2=leaders",
    "bcast@2x2=leaders-65536+mpi",
    "reduce@2x2=leaders-8192+mpi",
    "allreduce@2x2=leaders-8192+lanes",
    "allgather@2x2=lanes-8192+mpi",
    "alltoall@2x2=lanes-1024+mpi",
    "gather@2x2=mpi",
    "scatter@2x2=mpi",
    "reduce_scatter@2x2=mpi",
    "scan@2x2=mpi",
};

// The defaults for communicators with many ranks on one node, which override those for fewer ranks. They follow from
// simulations of nodes with one and with two sockets (docs/explanation/collectives.md). A description of a node leaves
// open how many fetches overlap. Where doubling is selected, it is faster than the MPI's messages whatever overlaps. In
// longer ranges that are left to the MPI, nearfield's algorithms are slower if few fetches overlap.
struct DefaultEntry {
  int min_ranks;
  std::string_view rule;
};
constexpr DefaultEntry many_ranks_defaults[] = {{16, "barrier@2=doubling"},
                                                {16, "allreduce@2=doubling-4096+mpi-8192+slices"},
                                                {16, "reduce@2=doubling-4096+mpi-8192+flat"},
                                                {17, "gather@2=mpi-4096+flat"},
                                                {17, "reduce_scatter@2=mpi-8192+flat"},
                                                {17, "scan@2=mpi"},
                                                {17, "allgather@2=doubling-32+mpi-1024+flat"},
                                                {17, "alltoall@2=doubling-256+flat"},
                                                {33, "allreduce@2=doubling-2048+mpi-8192+slices"},
                                                {33, "reduce@2=doubling-2048+mpi-8192+flat"},
                                                {33, "allgather@2=doubling-16+mpi-1024+flat"},
                                                {33, "alltoall@2=doubling-128+mpi-1023+flat"},
                                                {65, "alltoall@2=doubling-32+mpi-1023+flat"},
                                                {129, "allreduce@2=doubling-2048+mpi"},
                                                {129, "reduce@2=doubling-1024+mpi"},
                                                {129, "reduce_scatter@2=mpi"},
                                                {129, "allgather@2=doubling-16+mpi"},
                                                {129, "alltoall@2=doubling-32+mpi"}};

template <class Number>
bool parse_number(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

// Removes the part of `remaining_text` up to and including the first separator. Returns this part without the
// separator.
std::string_view split_off_until(std::string_view& remaining_text, char separator) {
  const std::size_t at = std::min(remaining_text.find(separator), remaining_text.size());
  const std::string_view part = remaining_text.substr(0, at);
  remaining_text.remove_prefix(std::min(at + 1, remaining_text.size()));
  return part;
}

// Parses "grouped8" (groups of 8 ranks) or the name of another algorithm of the operation. Returns false if `text` is
// neither.
bool parse_choice(std::string_view text, Operation operation, AlgorithmChoice& choice) {
  const std::size_t end = std::min(text.find_first_of("0123456789"), text.size());
  const int algorithm = index_of_name(algorithm_names, text.substr(0, end));
  if (algorithm < 0 || !has_algorithm(operation, static_cast<Algorithm>(algorithm))) return false;
  choice = {static_cast<Algorithm>(algorithm), 0};
  const bool has_group_size = end < text.size(), needs_group_size = choice.algorithm == Algorithm::grouped;
  if (!needs_group_size) return !has_group_size;
  return parse_number(text.substr(end), choice.ranks_per_group) && choice.ranks_per_group > 1;
}

}  // namespace

AlgorithmOverride algorithm_overrides[num_operations];

const char* operation_name(Operation operation) { return operation_names[static_cast<std::size_t>(operation)].data(); }

AlgorithmSelection::AlgorithmSelection(const std::vector<AlgorithmRule>& rules, int ranks, int nodes) {
  const auto use_entry = [this](std::string_view text) {
    if (AlgorithmRule rule; parse_algorithm_rule(text.data(), text.size(), rule))
      ranges_[static_cast<std::size_t>(rule.operation)] = rule.ranges;
  };
  if (nodes > 1)
    for (const std::string_view text : multi_node_defaults) use_entry(text);
  else
    for (const auto& [min_ranks, text] : many_ranks_defaults)
      if (ranks >= min_ranks) use_entry(text);
  std::array<double, num_operations> nearest_distance;
  nearest_distance.fill(std::numeric_limits<double>::infinity());
  for (const AlgorithmRule& rule : rules) {
    const auto index = static_cast<std::size_t>(rule.operation);
    const double rank_distance = std::abs(std::log2(static_cast<double>(rule.ranks_per_node) / ranks)),
                 node_distance = std::abs(std::log2(static_cast<double>(rule.num_nodes) / nodes));
    const bool is_near = std::max(rank_distance, node_distance) < 1 + 1e-9 && (rule.num_nodes > 1) == (nodes > 1);
    if (!is_near || rank_distance + node_distance >= nearest_distance[index]) continue;
    nearest_distance[index] = rank_distance + node_distance;
    ranges_[index] = rule.ranges;
  }
}

bool parse_algorithm_rule(const char* text, std::size_t length, AlgorithmRule& rule) {
  std::string_view remaining_text(text, length);
  const int operation = index_of_name(operation_names, split_off_until(remaining_text, '@'));
  std::string_view layout_text = split_off_until(remaining_text, '=');
  const bool has_nodes = layout_text.find('x') != layout_text.npos;
  if (operation < 0 || !parse_number(split_off_until(layout_text, 'x'), rule.ranks_per_node)) return false;
  rule.num_nodes = 1;
  if (has_nodes && (!parse_number(layout_text, rule.num_nodes) || rule.num_nodes < 2)) return false;
  if (rule.ranks_per_node < 2) return false;
  rule.operation = static_cast<Operation>(operation);
  rule.ranges.clear();
  std::size_t previous_last_bytes = 0;
  while (!remaining_text.empty()) {
    std::string_view range = split_off_until(remaining_text, '+');
    const bool has_length = range.find('-') != range.npos;
    AlgorithmChoice choice;
    if (!parse_choice(split_off_until(range, '-'), rule.operation, choice)) return false;
    if (choice.algorithm != Algorithm::mpi && is_multi_node_algorithm(choice.algorithm) != has_nodes) return false;
    std::size_t last_bytes = SIZE_MAX;
    if (has_length ? !parse_number(range, last_bytes) || last_bytes < previous_last_bytes : !remaining_text.empty())
      return false;
    rule.ranges.push_back({last_bytes, choice});
    previous_last_bytes = last_bytes;
  }
  return !rule.ranges.empty();
}

}  // namespace nearfield::collectives

// Sets the algorithm of an operation on all communicators of this process. measure.cpp finds this function by dlsym.
// Returns false if there is no such operation, or the operation has no such algorithm.
NEARFIELD_EXPORT bool nearfield_collectives_override(const char* operation, const char* algorithm) {
  using namespace nearfield::collectives;
  const int operation_index = index_of_name(operation_names, operation);
  AlgorithmChoice choice;
  if (operation_index < 0 || !parse_choice(algorithm, static_cast<Operation>(operation_index), choice)) return false;
  algorithm_overrides[operation_index].store(choice, std::memory_order_relaxed);
  return true;
}

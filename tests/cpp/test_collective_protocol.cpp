// Is the protocol of src/collectives/exchange.hpp free of races and deadlocks in all executions that the C++
// memory model allows, and do the collectives of algorithms.hpp give the right results? Would this test notice
// mistakes?
//
// test_collective_protocol [long | short | states]: "long" takes many minutes; "short" takes small samples of all
// sequences; "states" visits all states of boxes of depth 4, which takes a minute.
//
// Why one run of a sequence of calls decides about all its executions
//
// The code that programs run is run here, on a Port that checks these premises:
// 1. Each counter is stored by one rank, in release order, with numbers that grow. Ranks load counters only in waits,
//    in acquire order, until they are at least a number. A wait returns nothing. So what a rank does next depends on
//    the arguments of its calls and on data that it has read, but not on when a wait ends, nor on the number it has
//    seen. Runs under several schedules must therefore do the same, action by action.
// 2. Ranks share nothing but their boxes and what programs send and receive with, and they access these by the Port. A
//    temporary buffer, for instance, must not be read by a peer.
//
// Races: A wait reads a sufficient number. Whichever it reads, the first sufficient store is the same one, or comes
// before it in the program of the same rank. So what happens before the first sufficient store happens before the end
// of the wait in every execution. This order, and that of each rank's own program, are all that the Port counts on. If
// they order every two accesses that conflict (of two ranks, to the same bytes, at least one a write), then each
// execution does.
// Values: Each read then has one last write before it, which is the same in all executions. Let some execution differ
// from the run, and take the first action in this order that differs. It can differ only by what its rank has read
// before; but that was written by earlier actions, which are equal. So no action differs, and all results are equal.
// Deadlocks: Let the run end, and let another execution be stuck. Of the actions that this one lacks, take the one that
// came first in the run. All that came before it in the run has been done here, too. So it is the next action of its
// rank. If it is a wait, the store that ended it in the run has been made; since counters only grow, the wait ends.
//
// The test assumes the following and does not check it. Stores become visible, and each rank runs on, after a finite
// time. Atomic numbers in memory that processes share work as those of threads do. Copies from and to the memory of
// peers, also those by the kernel, are accesses of the rank that makes them. What a rank copies between its own buffers
// without the Port is not recorded; but the program accesses them, too, before and after each call, which is recorded.
// Not tested are boxes that communicators use one after the other, with counters that begin anew, and all sequences of
// more than three ranks. But each wait and each race is between two ranks, and a third one suffices to stand between
// them, or to run ahead of them. Algorithms in several steps, where ranks learn of each other over more than one third
// rank, run on four and five ranks, too, in sequences of two calls and in random ones.
//
// Which sequences
//
// Lines and slots are reused after `depth` operations. Whether an access in operation i is before the write in
// operation i + depth depends on waits in operations i to i + depth: those before i are for numbers that do not suffice
// for begin_operation(). So each case shows within 3 operations if the depth is 2, and within 6 if it is 4. What ranks
// offer in their memory is ordered within a call.
//
// One need not believe this. After each call of a sequence the ranks are in a state: what each of them knows of the
// accesses and stores of others, and a few numbers. From equal states (digest_state() says which are) the ranks go on
// equally, so that one sequence that leads there suffices. These states are finitely many, and for the calls that
// main() lists all are visited: sequences of any length have no other ones. It is tested, in a sample, that equal
// states have equal successors.
//
// Programs use depth 16; random sequences are run with it. The code uses the depth only to count in circles, and depth
// 4 has all that 16 has: operations that must wait for others to be finished, and operations after them that need not.
#include <cstdio>
#include <deque>
#include <set>
#include <string>
#include <unordered_map>

#include "check.hpp"
#include "checked_ranks.hpp"

using namespace nearfield::collectives;

namespace {

using Sequence = std::vector<Kind>;
using enum Operation;

struct {
  std::uint64_t sequences, runs, calls, states, steps, accesses;
} totals{};

template <std::uint64_t depth>
void add_steps(CheckedRanks<depth>& all) {
  totals.steps += all.count_steps();
  totals.accesses += all.node().compared;
}

void print_problem(const char* what, std::uint64_t depth, int ranks, const Sequence& sequence,
                   const std::string& text) {
  ++failed_checks;
  if (failed_checks <= 10)
    std::printf("%s, depth %d, %d ranks: %s: %s\n", what, static_cast<int>(depth), ranks,
                name_sequence(sequence).c_str(), text.c_str());
}

// ---- sequences

// Calls that differ in what ranks do: who posts in which place, who reads it, and who waits for whom.
Sequence list_typical_kinds(int ranks) {
  const int last = ranks - 1;
  return {
      {barrier},                             // each waits for all; nobody reads
      {bcast, Size::line, 0},                // one posts for all, and waits for nobody
      {bcast, Size::slot, last},             // the same, by another rank and in another place
      {bcast, Size::memory, 1},              // one posts for all, and waits for its readers
      {gather, Size::slot, 0},               // all post for one, and wait for nobody
      {gather, Size::memory, last},          // all post for one, and wait for this reader alone
      {scatter, Size::uneven, 0},            // pieces in a slot, and one of no length, which nobody reads
      {scatter, Size::memory, 1},            // pieces in memory
      {reduce, Size::line, 1},               // all post for one; what this one posts nobody reads
      {reduce, Size::long_slices, 0, true},  // the others write into the memory of one
      {allgather, Size::uneven, 0},          // each rank posts in another place
      {alltoallv, Size::uneven, 0},          // pieces in a slot, and in memory
      {allreduce, Size::slot, 0},            // all read what all post, and do not say when they have read it
      {allreduce, Size::memory, 0, true},    // two operations; readers of the first are awaited in the second
      {scan, Size::line, 0},                 // a rank waits for lower ones alone
      {scan, Size::memory, 0},               // a rank waits for lower ones to enter, and for all to read
  };
}

// Calls after which the ranks know as little of each other as possible, and one after which they know all.
Sequence list_loose_kinds(int ranks) {
  return {{bcast, Size::line, 0}, {bcast, Size::slot, ranks - 1}, {gather, Size::slot, 1},
          {scan, Size::line, 0},  {gather, Size::memory, 0},      {allgather, Size::uneven, 1}};
}

constexpr Schedule schedules[] = {{0}, {1}, {2}, {0, true}, {1, true}, {0, true, 1}, {2, false, 2}};

template <std::uint64_t depth>
void check_sequence(CheckedRanks<depth>& all, const Sequence& sequence, bool has_all_schedules) {
  ++totals.sequences;
  std::vector<std::uint64_t> traces;
  std::array<VectorClock, max_checked_ranks> clocks{};
  for (const Schedule& schedule : schedules) {
    if (schedule.first >= all.ranks()) continue;
    all.reset();
    ++totals.runs;
    totals.calls += sequence.size();
    if (const auto problem = all.run(sequence, schedule))
      return print_problem("a problem", depth, all.ranks(), sequence, problem->text);
    if (&schedule == schedules) traces = all.get_traces(), clocks = all.node().order.clocks;
    if (traces != all.get_traces() || clocks != all.node().order.clocks)
      return print_problem("depends on the schedule", depth, all.ranks(), sequence, "");
    if (!has_all_schedules) return;
  }
}

// Checks all sequences of a length; every `period`-th one under all schedules.
template <std::uint64_t depth>
void check_all_sequences(int ranks, const Sequence& kinds, std::size_t length, std::size_t period) {
  CheckedRanks<depth> all(ranks);
  std::vector<std::size_t> indices(length, 0);
  Sequence sequence(length, kinds[0]);
  for (std::size_t count = 0;; ++count) {
    check_sequence(all, sequence, count % period == 0);
    std::size_t at = 0;
    while (at < length && ++indices[at] == kinds.size()) indices[at] = 0, sequence[at++] = kinds[0];
    if (at == length) break;
    sequence[at] = kinds[indices[at]];
  }
  add_steps(all);
}

// Returns the kinds that consist of several operations, in which ranks learn of each other over third ones, and those
// after which ranks know little.
Sequence list_indirect_kinds(int ranks) {
  Sequence kinds{{grouped_barrier}, {stepped_barrier}, {scan, Size::slot}, {scan, Size::line}};
  for (const Size size : {Size::line, Size::slot}) {
    for (const bool in_place : {false, true}) {
      kinds.push_back({stepped_allreduce, size, 0, in_place});
      kinds.push_back({grouped_allreduce, size, 0, in_place});
      kinds.push_back({stepped_allgather, size, 0, in_place});
    }
    kinds.push_back({stepped_alltoall, size});
    for (int root = 0; root < ranks; ++root)
      for (const Operation operation : {bcast, stepped_reduce, reduce, grouped_bcast, sliced_bcast})
        kinds.push_back({operation, size, root});
  }
  for (int root = 0; root < ranks; ++root) kinds.push_back({bcast, Size::memory, root});
  return kinds;
}

template <std::uint64_t depth>
void check_random_sequences(int ranks, const Sequence& kinds, int count, std::size_t length) {
  CheckedRanks<depth> all(ranks);
  std::mt19937 random(7);
  for (int i = 0; i < count; ++i) {
    Sequence sequence;
    while (sequence.size() < length) sequence.push_back(kinds[random() % kinds.size()]);
    check_sequence(all, sequence, true);
  }
  add_steps(all);
}

// ---- states

// Visits all states between calls that sequences of any length reach. To have fewer of them, each access to a line or a
// slot counts as one to all of this line and its slot, which can only make more races.
template <std::uint64_t depth>
void visit_all_states(int ranks, const Sequence& kinds) {
  using State = typename CheckedRanks<depth>::State;
  CheckedRanks<depth> all(ranks);
  all.node().is_coarse = true;
  struct Visit {
    State state;
    Sequence path;
    std::uint64_t digest;
    bool is_new;
  };
  std::deque<Visit> visits;
  std::unordered_map<std::uint64_t, std::uint64_t> successors;  // by digest: a digest of the next states
  std::mt19937 random(11);
  const std::uint64_t first = all.digest_state();
  visits.push_back({all.get_state(), {}, first, true});
  successors[first] = 0;
  std::size_t longest = 0;
  for (; !visits.empty(); visits.pop_front()) {
    const Visit& visit = visits.front();
    longest = std::max(longest, visit.path.size());
    std::uint64_t next = 0;
    for (const Kind& kind : kinds) {
      all.set_state(visit.state);
      ++totals.runs, ++totals.calls;
      Sequence path = visit.path;
      path.push_back(kind);
      if (const auto problem = all.run({kind})) return print_problem("a problem", depth, ranks, path, problem->text);
      const std::uint64_t digest = all.digest_state();
      next = (next ^ digest) * 0x9e3779b97f4a7c15u;
      next ^= next >> 29;
      const bool is_new = successors.emplace(digest, 0).second;
      if (is_new || (visit.is_new && random() % 1024 == 0))
        visits.push_back({all.get_state(), std::move(path), digest, is_new});
    }
    std::uint64_t& known = successors[visit.digest];
    if (visit.is_new) known = next;
    if (known != next) return print_problem("equal states differ", depth, ranks, visit.path, "");
  }
  std::printf("%d ranks, depth %d, %zu kinds of calls: %zu states, all of which sequences of %zu calls reach\n", ranks,
              static_cast<int>(depth), kinds.size(), successors.size(), longest);
  totals.states += successors.size();
  add_steps(all);
}

// ---- mistakes

constexpr std::uint64_t depth_of_mistakes = 4;

// Runs sequences until a problem is found, and returns it. The sequences repeat a call, or two in turn.
std::optional<Problem> find_mistake(const Injection& injection, Sequence& found) {
  static CheckedRanks<depth_of_mistakes> all(3);
  static const std::vector<Sequence> sequences = [] {
    std::vector<Sequence> list;
    for (const Kind& kind : list_kinds(3)) list.emplace_back(7, kind);
    for (const Kind& a : list_typical_kinds(3))
      for (const Kind& b : list_typical_kinds(3)) list.push_back({a, b, a, b, a, b, a});
    return list;
  }();
  all.node().injection = injection;
  for (const Sequence& sequence : sequences)
    for (const int first : {0, 2}) {
      all.reset();
      ++totals.runs;
      if (auto problem = all.run(found = sequence, {first})) return problem;
    }
  return {};
}

struct Mistake {
  std::string name;
  Injection injection;
  std::set<Problem::Kind> expected;
};

std::vector<Mistake> list_mistakes() {
  using enum Problem::Kind;
  std::vector<Mistake> list{
      {"no wait for reuse", {Bug::skip_wait, -1, 0, WaitReason::reuse}, {race}},
      {"no wait for entry", {Bug::skip_wait, -1, 0, WaitReason::entry}, {race, wrong_value}},
      {"no wait for readers", {Bug::skip_wait, -1, 0, WaitReason::readers}, {race}},
      {"a wait for entry in the operation before", {Bug::wait_for_less, -1, 0, WaitReason::entry}, {race, wrong_value}},
      {"a wait for readers of the operation before", {Bug::wait_for_less, -1, 0, WaitReason::readers}, {race}},
      {"reuse when others have entered the operation in which they read", {Bug::reuse_after_entry}, {race}},
      {"reuse after one operation less", {Bug::reuse_too_early}, {race}},
      {"the place is written after the publish", {Bug::delay_place}, {race}},
      {"the last data are written after the publish", {Bug::delay_data}, {race}},
      {"counters have one less", {Bug::publish_less}, {deadlock}},
      {"a rank publishes that it has read in the next operation, too", {Bug::claim_next_reading}, {race}},
      {"a rank publishes when it enters that it has read", {Bug::finish_early}, {race}},
      {"a copy has a wrong bit", {Bug::corrupt_copy}, {wrong_value}},
      {"a reader counts on an owner that does not wait", {Bug::claim_owner_waits}, {broken_premise}},
  };
  for (int rank = 0; rank < 3; ++rank)
    for (int i = 0; i < 8; ++i) {
      const std::string of_rank = " " + std::to_string(i) + " of rank " + std::to_string(rank);
      list.push_back({"no wait" + of_rank, {Bug::skip_one_wait, rank, i}, {race, wrong_value}});
      list.push_back({"no publish" + of_rank, {Bug::lose_publish, rank, i}, {deadlock}});
    }
  return list;
}

void check_mistakes() {
  const char* const names[] = {"race", "deadlock", "wrong value", "broken premise"};
  std::size_t count = 0;
  for (const Mistake& mistake : list_mistakes()) {
    Sequence sequence;
    const auto problem = find_mistake(mistake.injection, sequence);
    ++count;
    if (!problem || !mistake.expected.contains(problem->kind))
      print_problem("a mistake is not found", depth_of_mistakes, 3, sequence,
                    mistake.name + (problem ? ", but: " + problem->text : ""));
    else if (mistake.injection.rank < 0)
      std::printf("%s: %s, where each call is %s: %s\n", mistake.name.c_str(), names[problem->kind],
                  sequence[0].name().c_str(), problem->text.c_str());
  }
  // The line's counter has a number at least `depth` less before it has this one, so this is no mistake.
  Sequence sequence;
  if (const auto problem = find_mistake({Bug::wait_for_less, -1, 0, WaitReason::reuse}, sequence))
    print_problem("a harmless change is a problem", depth_of_mistakes, 3, sequence, problem->text);
  std::printf("%zu mistakes are found\n", count);
}

// Returns the exit code of the program.
int report_totals() {
  std::printf("%llu sequences, %llu runs, %llu calls, %llu states, %llu steps of ranks, %llu accesses\n",
              static_cast<unsigned long long>(totals.sequences), static_cast<unsigned long long>(totals.runs),
              static_cast<unsigned long long>(totals.calls), static_cast<unsigned long long>(totals.states),
              static_cast<unsigned long long>(totals.steps), static_cast<unsigned long long>(totals.accesses));
  return failed_checks > 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string extent = argc > 1 ? argv[1] : "";
  if (extent == "states") {
    visit_all_states<4>(2, list_kinds(2));
    visit_all_states<4>(3, list_typical_kinds(3));
    return report_totals();
  }
  const bool is_long = extent == "long";
  // The period of the sample of all sequences, and the number of random sequences.
  const auto sampled = [&](int usual) { return is_long ? 1 : extent == "short" ? 4 * usual : usual; };
  const auto random = [&](int usual, int max) { return is_long ? max : extent == "short" ? usual / 8 : usual; };
  for (const int ranks : {2, 3}) {
    const Sequence kinds = list_kinds(ranks), typical = list_typical_kinds(ranks), loose = list_loose_kinds(ranks);
    check_all_sequences<4>(ranks, kinds, 2, sampled(32));
    if (is_long) check_all_sequences<2>(ranks, kinds, 3, 64);
    check_all_sequences<2>(ranks, typical, is_long ? 4 : 3, sampled(64));
    check_all_sequences<4>(ranks, loose, is_long ? 6 : 5, sampled(64));
    check_random_sequences<4>(ranks, kinds, random(250, 20000), 12);
    check_random_sequences<16>(ranks, kinds, random(80, 10000), 40);
    if (extent == "short") continue;
    visit_all_states<2>(ranks, kinds);
    if (is_long) visit_all_states<4>(ranks, kinds);
  }
  for (const int ranks : {4, 5}) {
    const Sequence kinds = list_indirect_kinds(ranks);
    check_all_sequences<4>(ranks, kinds, 2, sampled(256));
    check_random_sequences<4>(ranks, kinds, random(60, 20000), 12);
  }
  check_mistakes();
  return report_totals();
}

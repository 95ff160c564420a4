// Ranks that call the same collectives under a chosen schedule, and the state of the protocol between two calls.
#pragma once

#include <bit>
#include <optional>
#include <random>

#include "checked_call.hpp"

namespace nearfield::collectives {

// Which rank runs next: round robin from `first`, or a random one if there is a seed.
struct Schedule {
  int first = 0;
  bool switches_always = false;  // at each wait and publish; else only where a rank must wait
  unsigned seed = 0;
};

template <std::uint64_t depth>
class CheckedRanks {
 public:
  using Port = CheckedPort<depth>;
  using RankExchange = Exchange<Port>;

  // All that the further behaviour of the ranks depends on when each of them has returned from a call.
  struct State {
    Order<depth> order;
    std::vector<RankExchange> exchanges;
  };

  explicit CheckedRanks(int ranks) : ranks_(ranks), fibers_(ranks), node_(ranks, fibers_) {
    for (int i = 0; i < ranks; ++i) ports_.push_back(std::make_unique<Port>(node_, i));
    reset();
  }

  int ranks() const { return ranks_; }
  CheckedNode<depth>& node() { return node_; }

  // Goes to the state before the first call.
  void reset() {
    node_.reset();
    std::vector<RankExchange> exchanges;
    for (int i = 0; i < ranks_; ++i) exchanges.emplace_back(port(i), node_.boxes(), ranks_, i);
    exchanges_.swap(exchanges);
    for (auto& one : ports_) one->reset();
  }

  State get_state() const { return {node_.order, exchanges_}; }
  void set_state(const State& state) {
    reset();
    node_.order = state.order;
    std::vector<RankExchange> exchanges(state.exchanges);
    exchanges_.swap(exchanges);
  }

  // Lets all ranks call these collectives, from the present state on. Returns the first problem.
  std::optional<Problem> run(const std::vector<Kind>& sequence, const Schedule& schedule = {}) {
    problem_.reset();
    node_.pending = {};
    node_.switches_always = schedule.switches_always;
    for (int i = 0; i < ranks_; ++i) fibers_.start(i, [this, i, &sequence] { call_all(i, sequence); });
    std::mt19937 random(schedule.seed);
    for (int rank = schedule.first; !problem_;) {
      if (schedule.seed) rank = static_cast<int>(random() % static_cast<unsigned>(ranks_));
      for (int tried = 0; tried < ranks_ && !may_run(rank); ++tried) rank = (rank + 1) % ranks_;
      if (!may_run(rank)) break;
      fibers_.resume(rank);
      rank = (rank + 1) % ranks_;
    }
    if (!problem_) problem_ = find_deadlock();
    node_.is_abandoned = true;
    for (int i = 0; i < ranks_; ++i)
      while (!fibers_.has_ended(i)) fibers_.resume(i);
    node_.is_abandoned = false;
    return problem_;
  }

  // What each rank has done since reset().
  std::vector<std::uint64_t> get_traces() const {
    std::vector<std::uint64_t> traces;
    for (const auto& one : ports_) traces.push_back(one->trace);
    return traces;
  }
  std::uint64_t count_steps() const {
    std::uint64_t steps = 0;
    for (const auto& one : ports_) steps += one->steps;
    return steps;
  }

  // Returns a digest that is equal for two states only if the ranks behave equally from there on.
  std::uint64_t digest_state();

 private:
  Port& port(int rank) { return *ports_[static_cast<std::size_t>(rank)]; }
  bool may_run(int rank) { return !fibers_.has_ended(rank) && node_.can_run(rank); }

  // The body of a fiber.
  void call_all(int rank, const std::vector<Kind>& sequence) {
    std::size_t position = 0;
    try {
      for (; position < sequence.size(); ++position)
        CheckedCall<depth>(sequence[position], exchanges_[static_cast<std::size_t>(rank)], node_.buffers(rank),
                           position)
            .run();
    } catch (const Problem& problem) {
      if (!problem_)
        problem_ = Problem{problem.kind, "call " + std::to_string(position + 1) + " of rank " + std::to_string(rank) +
                                             ": " + problem.text};
    } catch (const Abandoned&) {
    }
  }

  std::optional<Problem> find_deadlock() {
    std::string text;
    for (int i = 0; i < ranks_; ++i)
      if (!fibers_.has_ended(i)) {
        const auto& [counter, number] = node_.pending[static_cast<std::size_t>(i)];
        text += (text.empty() ? "rank " : "; rank ") + std::to_string(i) + " waits for " + std::to_string(number) +
                " of rank " + std::to_string(counter / static_cast<int>(depth + 1));
      }
    if (text.empty()) return {};
    return Problem{Problem::deadlock, text};
  }

  int ranks_;
  Fibers fibers_;
  CheckedNode<depth> node_;
  std::vector<std::unique_ptr<Port>> ports_;
  std::vector<RankExchange> exchanges_;
  std::optional<Problem> problem_;
};

// Replaces values of clocks by numbers that have the same order, so that clocks of different sequences can be equal. Of
// the values that all ranks know, none matters any more, so they all become 0.
class ClockNumbers {
 public:
  template <std::uint64_t depth>
  ClockNumbers(const Order<depth>& order, int ranks) : ranks_(static_cast<std::size_t>(ranks)) {
    known_.fill(UINT32_MAX);
    for (std::size_t i = 0; i < ranks_; ++i)
      for (std::size_t q = 0; q < ranks_; ++q) known_[q] = std::min(known_[q], order.clocks[i][q]);
    for (std::size_t i = 0; i < ranks_; ++i) add(order.clocks[i]);
    for (const Store& store : order.stores) add(store.clock);
    for (const Access& access : order.accesses) add(static_cast<std::size_t>(access.rank), access.clock);
    for (auto& list : values_) std::sort(list.begin(), list.end());
    for (auto& list : values_) list.erase(std::unique(list.begin(), list.end()), list.end());
  }

  std::uint64_t number_of(std::size_t rank, std::uint32_t value) const {
    const auto& list = values_[rank];
    if (value <= known_[rank]) return 0;
    return static_cast<std::uint64_t>(std::lower_bound(list.begin(), list.end(), value) - list.begin()) + 1;
  }
  std::uint64_t number_of(const VectorClock& clock) const {
    std::uint64_t number = 0;
    for (std::size_t q = 0; q < ranks_; ++q) number = number << 16 | number_of(q, clock[q]);
    return number;
  }

 private:
  void add(std::size_t rank, std::uint32_t value) {
    if (value > known_[rank]) values_[rank].push_back(value);
  }
  void add(const VectorClock& clock) {
    for (std::size_t q = 0; q < ranks_; ++q) add(q, clock[q]);
  }

  std::size_t ranks_;
  VectorClock known_;
  std::array<std::vector<std::uint32_t>, max_checked_ranks> values_;
};

// Digests what the behaviour of all ranks depends on from this state on. Numbers of operations count only relative to
// the last one, since the protocol counts in circles, and clocks only by their order (ClockNumbers).
// - Accesses and stores that all ranks know order nothing any more (Order::forget_what_all_know).
// - An exchange is a few numbers. Those of operations are equal if they are so old that no line of then is in use.
// - If a rank must still wait for readers of an old operation, the store that this wait would find is digested.
template <std::uint64_t depth>
std::uint64_t CheckedRanks<depth>::digest_state() {
  auto& order = node_.order;
  order.forget_what_all_know(ranks_);
  const auto ranks = static_cast<std::size_t>(ranks_);
  const std::uint64_t last = order.entered[0];  // equals that of the other ranks
  std::uint64_t digest = std::min(last, depth);
  const auto add = [&](std::uint64_t word) { digest = ((digest ^ word) * 0x9e3779b97f4a7c15u) ^ (digest >> 31); };
  const ClockNumbers numbers(order, ranks_);
  for (std::size_t i = 0; i < ranks; ++i) add(numbers.number_of(order.clocks[i]));

  // The order of stores and of accesses in their lists does not matter.
  std::vector<std::array<std::uint64_t, 3>> entries;
  for (const Store& store : order.stores) {
    if (order.is_known_to_all(store.clock, ranks_)) continue;
    const auto counter = static_cast<std::uint64_t>(store.counter), owner = counter / (depth + 1);
    const bool is_line = counter % (depth + 1) < depth;
    entries.push_back({owner * 2 + is_line, last - store.number, numbers.number_of(store.clock)});
  }
  for (const Access& access : order.accesses) {
    std::uint64_t place = access.begin >> 32, area = place % CheckedNode<depth>::areas;
    if (area < 2 * depth) place += area / depth * depth + (last + depth - area % depth) % depth - area;
    const std::uint64_t range = (access.begin & 0xffffffff) << 16 | (access.end - access.begin);
    const auto rank = static_cast<std::size_t>(access.rank);
    entries.push_back({1000 + place, range, (numbers.number_of(rank, access.clock) * 2 + access.is_write) * 4 + rank});
  }
  std::sort(entries.begin(), entries.end());
  for (const auto& entry : entries)
    for (const std::uint64_t word : entry) add(word);

  for (std::size_t i = 0; i < ranks; ++i) {
    using Words = std::array<std::uint64_t, sizeof(RankExchange) / sizeof(std::uint64_t)>;
    const RankExchange initial(port(static_cast<int>(i)), node_.boxes(), ranks_, static_cast<int>(i));
    const auto words = std::bit_cast<Words>(exchanges_[i]), before = std::bit_cast<Words>(initial);
    for (std::size_t w = 0; w < words.size(); ++w)  // what is larger is the address of data of the last call
      if (words[w] != before[w] && words[w] <= last) add(w << 32 | std::min(last - words[w], depth));
    for (std::size_t q = 0; q < ranks && order.offered[i] > 0; ++q) {
      const Store* const found = node_.find_store(static_cast<int>(q * (depth + 1) + depth), order.offered[i]);
      add(i << 8 | q);
      add(found ? numbers.number_of(found->clock) : UINT64_MAX);
    }
  }
  return digest;
}

}  // namespace nearfield::collectives

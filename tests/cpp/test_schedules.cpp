// Do the schedules of simulated ranks say what each wait was for, under every protocol?
#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "check.hpp"
#include "rank_programs.hpp"
#include "sim/mpi/protocol.hpp"
#include "test_machine.hpp"

namespace {

using namespace nearfield::sim;
using Kind = ScheduleStep::Kind;

struct SentMessage {
  int from = 0, to = 0;
  std::uint64_t bytes = 0;
};

// Phases of messages between random ranks. All ranks compute, post what they send and receive, and wait in an order of
// their own.
std::vector<std::vector<SentMessage>> random_messages(std::mt19937& random, int ranks) {
  std::vector<std::vector<SentMessage>> phases(4);
  for (auto& phase : phases)
    for (int i = 0; i < 6; ++i) {
      const auto from = static_cast<int>(random() % static_cast<unsigned>(ranks));
      phase.push_back(
          {from, static_cast<int>(random() % static_cast<unsigned>(ranks)), random() % (1u << (random() % 17))});
    }
  return phases;
}

// Rank 0 begins after `delay`.
Program exchange(const std::vector<std::vector<SentMessage>>& phases, Ps delay = 0) {
  return [&phases, delay](Rank& rank) -> Task<> {
    std::mt19937 random(static_cast<unsigned>(rank.rank()));
    const Address memory = rank.allocate(1 << 20);
    if (rank.rank() == 0) rank.compute(delay);
    for (const auto& phase : phases) {
      rank.compute(static_cast<Ps>(random() % 20'000'000));
      std::vector<Request> requests;
      for (std::size_t i = 0; i < phase.size(); ++i) {
        const auto& [from, to, bytes] = phase[i];
        const Buffer buffer(memory + i * 131072, bytes);
        if (to == rank.rank()) requests.push_back(rank.receive(from, buffer, static_cast<int>(i)));
        if (from == rank.rank()) requests.push_back(rank.send(to, buffer, static_cast<int>(i)));
      }
      std::ranges::shuffle(requests, random);
      for (const Request& request : requests) co_await rank.wait(request);
    }
  };
}

// Computes the time of each step from the work of all ranks and from what they waited for. Transfers between nodes
// arrive when they did.
class TimesOfSteps {
 public:
  TimesOfSteps(const std::vector<RankOutcome>& ranks, int ranks_per_node)
      : ranks_(ranks), ranks_per_node_(ranks_per_node), times_(ranks.size()) {
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) times_[rank].resize(ranks[rank].schedule.size());
  }

  Ps time_of(std::size_t rank, std::size_t step) {
    std::optional<Ps>& time = times_[rank][step];
    if (!time) {
      const auto& steps = ranks_[rank].schedule;
      time = (step > 0 ? time_after(rank, step - 1) : 0) + steps[step].end - steps[step].begin;
    }
    return *time;
  }

 private:
  Ps time_after(std::size_t rank, std::size_t step) {
    const ScheduleStep& before = ranks_[rank].schedule[step];
    if (before.kind != Kind::wait) return time_of(rank, step);
    const bool same_node = before.origin.rank / ranks_per_node_ == static_cast<int>(rank) / ranks_per_node_;
    const auto sender = static_cast<std::size_t>(before.origin.rank);
    const std::size_t origin = before.origin.step - 1;
    const bool is_notified = same_node && ranks_[sender].schedule[origin].kind == Kind::notify;
    const Ps until = is_notified ? time_of(sender, origin) : ranks_[rank].schedule[step + 1].begin;
    return std::max(time_of(rank, step), until);
  }

  const std::vector<RankOutcome>& ranks_;
  int ranks_per_node_;
  std::vector<std::vector<std::optional<Ps>>> times_;
};

// Do work and waits alone give the times of the simulation, to the picosecond, and is the last step at the end?
void work_and_waits_give_the_times() {
  std::mt19937 random(11);
  for (const bool within_node : {true, false})
    for (const auto& protocols : all_protocol_pairs(within_node))
      for (int i = 0; i < 6; ++i) {
        nearfield::Machine machine = test_machine();
        (within_node ? machine.messaging.node : machine.messaging.network) = protocols.name;
        const int nodes = within_node ? 1 : 2, each = within_node ? 3 : 2, policy = i % 2;
        ClusterOptions chosen = options(nodes, each, i % 3 != 2, {"memory", "payload-l3"});
        chosen.scheduled_policy = policy;
        const auto phases = random_messages(random, nodes * each);
        const Outcome outcome = Cluster(machine, chosen).run(exchange(phases));
        TimesOfSteps times(outcome.ranks, each);
        bool same = true, waited = false;
        for (std::size_t rank = 0; rank < outcome.ranks.size(); ++rank) {
          const auto& steps = outcome.ranks[rank].schedule;
          for (std::size_t step = 0; step < steps.size(); ++step) {
            same = same && times.time_of(rank, step) == steps[step].end;
            waited = waited || (steps[step].kind == Kind::wait && steps[step + 1].begin > steps[step].end);
          }
          same =
              same && steps.back().kind == Kind::end && steps.back().end == outcome.ranks[rank].finish_time[policy][0];
        }
        if (!same) std::printf("%s, program %d\n", protocols.name.c_str(), i);
        CHECK(same && waited);
      }
}

Ps work_of(const RankOutcome& rank) {
  Ps work = 0;
  for (const ScheduleStep& step : rank.schedule) work += step.end - step.begin;
  return work;
}

// Does a rank work as long when others make it wait longer? A wait that is not recorded would count as work. Without
// memory effects, all work takes the same time in both runs.
void waits_are_no_work() {
  std::mt19937 random(13);
  for (const bool within_node : {true, false})
    for (const auto& protocols : all_protocol_pairs(within_node))
      for (int i = 0; i < 6; ++i) {
        nearfield::Machine machine = test_machine();
        (within_node ? machine.messaging.node : machine.messaging.network) = protocols.name;
        machine.messaging.ring_bytes = 4096;
        ClusterOptions chosen = within_node ? options(1, 3, false) : options(3, 1, false);
        chosen.scheduled_policy = 0;
        const auto phases = random_messages(random, 3);
        const Outcome early = Cluster(machine, chosen).run(exchange(phases)),
                      late = Cluster(machine, chosen).run(exchange(phases, 3e8));
        for (std::size_t rank = 1; rank < early.ranks.size(); ++rank) {
          const Ps difference = work_of(late.ranks[rank]) - work_of(early.ranks[rank]);
          if (difference != 0) std::printf("%s: %.0f ps\n", protocols.name.c_str(), difference);
          CHECK(difference == 0);
        }
      }
}

// Is each arrival that a rank waits for that of a transfer which another node sent before, by the network's latency?
void transfers_arrive_after_they_were_sent() {
  std::mt19937 random(12);
  for (const auto& protocols : all_protocol_pairs(false)) {
    nearfield::Machine machine = test_machine();
    machine.messaging.network = protocols.name;
    ClusterOptions chosen = options(3, 1, true);
    chosen.scheduled_policy = 0;
    const auto phases = random_messages(random, 3);
    const Outcome outcome = Cluster(machine, chosen).run(exchange(phases));
    const Ps latency = ps_from_ns(machine.network->latency_ns);
    int arrivals = 0;
    for (std::size_t rank = 0; rank < outcome.ranks.size(); ++rank) {
      const auto& steps = outcome.ranks[rank].schedule;
      for (std::size_t step = 0; step < steps.size(); ++step) {
        if (steps[step].kind != Kind::wait || steps[step].origin.rank == static_cast<int>(rank)) continue;
        const ScheduleStep& sent =
            outcome.ranks[static_cast<std::size_t>(steps[step].origin.rank)].schedule[steps[step].origin.step - 1];
        CHECK(sent.kind == Kind::send && sent.peer == static_cast<int>(rank));
        CHECK(steps[step].latency >= latency && steps[step + 1].begin >= sent.end + latency);
        ++arrivals;
      }
    }
    CHECK(arrivals > 0);
  }
}

// Is nothing recorded without the option?
void schedules_are_recorded_on_request() {
  for (const RankOutcome& rank : Cluster(test_machine(), options(2, 1, true)).run(one_message(100)).ranks)
    CHECK(rank.schedule.empty());
}

}  // namespace

int main() {
  work_and_waits_give_the_times();
  waits_are_no_work();
  transfers_arrive_after_they_were_sent();
  schedules_are_recorded_on_request();
  return failed_checks == 0 ? 0 : 1;
}

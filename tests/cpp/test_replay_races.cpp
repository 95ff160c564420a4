// Does the replay of an observed program impose the outcomes that MPI leaves to timing, and count those that may
// differ?
#include <memory>
#include <string>

#include "check.hpp"
#include "replay_streams.hpp"

namespace {

using namespace nearfield;
using namespace nearfield::sim;

// Does a receive from any source match the message of the observed run, although another one arrives first, and is it
// counted as ambiguous?
void recorded_matches_are_replayed() {
  Streams all = streams(3);
  all[0].access(false, heap, 5000);
  all[0]
      .receive(1, stream::any_source_or_tag, data(large), stream::any_source_or_tag)
      .receive(2, stream::any_source_or_tag, data(8), 4);
  all[0].access(false, heap, 5000);
  all[0].add(stream::Outcome{1, 2, 7, large}).wait({1}).add(stream::Outcome{2, 1, 4, 8}).wait({2});
  all[0].receive(1, stream::any_source_or_tag, data(8)).end();  // that never matched
  all[1].send(1, 0, data(8), 4).wait({1}).end();
  all[2].access(false, heap, 20000).send(1, 0, data(large), 7).wait({1}).end();
  for (const auto& options : {cluster(3, 1), cluster(1, 3)}) {
    const auto replayed = run(all, options);
    CHECK(replayed.ranks[0].timing_sensitivity.from_any == 3);
    CHECK(replayed.ranks[0].timing_sensitivity.ambiguous_matches == 1);
    CHECK(replayed.ranks[0].accesses == 10000);
  }
}

// Do tests wait for the recorded requests, and return without those that were not complete?
void recorded_tests_are_replayed() {
  Streams all = streams(2);
  all[0].receive(1, 1, data(large)).receive(2, 1, data(8), 5);
  for (int i = 0; i < 3; ++i)
    all[0].enter("MPI_Test").add(stream::RequestsTested{{1}, {}, false}).leave().access(false, heap, i == 1 ? 100 : 1);
  all[0].enter("MPI_Testany").add(stream::RequestsTested{{1, 2}, {2}, false}).leave();
  all[0].enter("MPI_Iprobe").add(stream::Probe{0, 1, 9, false, false}).leave();
  all[0]
      .enter("MPI_Probe")
      .add(stream::Outcome{0, 1, 9, 16})
      .add(stream::Probe{0, stream::any_source_or_tag, stream::any_source_or_tag, true, true});
  all[0].leave().receive(3, 1, data(16), 9).add(stream::RequestsTested{{1, 3}, {3}, true}).wait({1}).end();
  all[1].access(false, heap, 10000).send(1, 0, data(8), 5).access(false, heap, 10000).send(2, 0, data(16), 9);
  all[1].send(3, 0, data(large)).wait({1, 2, 3}).end();
  for (const auto& options : {cluster(2, 1), cluster(1, 2)}) {
    const auto replayed = run(all, options);
    const auto& sensitivity = replayed.ranks[0].timing_sensitivity;
    CHECK(sensitivity.polls == 5 && sensitivity.failed_polls == 4 && sensitivity.waits_for_any == 1 &&
          sensitivity.from_any == 1);
    CHECK(replayed.ranks[0].calls[2].spent.time.first() == 2 * 7e3);         // two of the three: match_ns
    CHECK(replayed.ranks[0].calls[3].spent.time.first() > 10000 * 1e3 / 2);  // Testany waits for the other rank's work
  }
}

// Which of two messages comes first depends on the memory's speed: rank 1 sends after misses, rank 2 after more hits.
Streams racing() {
  Streams all = streams(3);
  all[1].access(false, heap, 300, 4096).send(1, 0, data(8), 4).wait({1}).end();
  for (int i = 0; i < 7; ++i) all[2].access(false, heap, 16 * 1024 / 8);
  all[2].send(1, 0, data(8), 4).wait({1}).end();
  return all;
}

// Do the race statistics of rank 0 count each kind of call whose result depends on the order, and polls between the
// two?
void races_of_other_configurations_are_counted() {
  const auto races_of = [](const auto& write) {
    Streams all = racing();
    write(all[0]);
    all[0].end();
    const auto replayed = run(all, cluster(3, 1));
    return replayed.ranks[0].timing_sensitivity.races;
  };
  const auto depends = [&](const auto& write) {
    const RaceStatistics races = races_of(write);
    CHECK(races.outcomes == 1);
    CHECK(races.num_divergent_outcomes[0][0] == 0);
    CHECK(races.num_divergent_outcomes[0][3] == 1 && races.num_divergent_outcomes[1][3] == 1);
  };
  const auto posted = [](StreamBuilder& me) -> StreamBuilder& {
    return me.receive(1, 1, data(8), 4).receive(2, 2, data(8, heap + 8), 4);
  };
  depends([&](auto& me) {
    posted(me).enter("MPI_Waitany").add(stream::RequestsTested{{1, 2}, {1}, true}).leave().wait({2});
  });
  depends([&](auto& me) {
    posted(me).enter("MPI_Waitsome").add(stream::RequestsTested{{1, 2}, {1}, true}).leave().wait({2});
  });
  depends([&](auto& me) {
    me.receive(1, stream::any_source_or_tag, data(8), 4).add(stream::Outcome{1, 1, 4, 8}).wait({1});
    me.receive(1, 2, data(8), 4).wait({1});
  });
  depends([&](auto& me) {
    me.add(stream::Outcome{0, 1, 4, 8}).add(stream::Probe{0, stream::any_source_or_tag, 4, true, true});
    me.receive(1, 1, data(8), 4).wait({1}).receive(1, 2, data(8), 4).wait({1});
  });
  // Requests that are complete when the program tests may be returned in any order, and a polling loop is a wait.
  const RaceStatistics late = races_of([&](auto& me) {
    posted(me)
        .access(false, heap, 20000, 4096)
        .enter("MPI_Waitany")
        .add(stream::RequestsTested{{1, 2}, {2}, true})
        .leave();
    me.wait({1});
  });
  CHECK(late.outcomes == 1 && late.num_divergent_outcomes[0][0] == 0 && late.num_divergent_outcomes[0][3] == 0);
  const RaceStatistics polling = races_of([&](auto& me) {
    me.receive(1, 1, data(8), 4);
    for (int i = 0; i < 9; ++i) me.enter("MPI_Test").add(stream::RequestsTested{{1}, {}, false}).leave();
    me.enter("MPI_Test").add(stream::RequestsTested{{1}, {1}, false}).leave().receive(2, 2, data(8), 4).wait({2});
  });
  CHECK(polling.outcomes == 0 && polling.num_divergent_outcomes[0][3] == 0);
  // With slow memory the misses of rank 1 delay the poll, and rank 2's message arrives long before.
  const RaceStatistics looking = races_of([&](auto& me) {
    me.receive(1, 2, data(8), 4).access(false, heap, 300, 4096);
    me.enter("MPI_Test").add(stream::RequestsTested{{1}, {}, false}).leave().access(false, heap, 1000).wait({1});
    me.receive(1, 1, data(8), 4).wait({1});
  });
  CHECK(looking.outcomes == 1 && looking.num_divergent_outcomes[0][0] == 0 &&
        looking.num_divergent_outcomes[0][3] == 1);
}

stream::Query question(stream::QueryKind which, std::vector<stream::Number> at, std::int64_t peer = 0) {
  return {which, std::move(at), false, StreamBuilder::world, peer, 0};
}

// Returns the streams of a rank whose first poll for a message fails and whose second succeeds, and of two senders:
// rank 2 sends at once, rank 1 after it has computed. The program received the message of rank `got` first.
Streams polling(std::int64_t got) {
  Streams all = streams(3);
  for (auto& one : all) std::get<stream::RankInfo>(*one.first()).is_live = true;
  all[0].enter("MPI_Iprobe");
  for (int i = 0; i < 2; ++i) {
    all[0].add(question(stream::QueryKind::probed_message, {}, stream::any_source_or_tag));
    if (i == 1) all[0].add(stream::Outcome{0, got, 0, 8});
    all[0].add(stream::Probe{StreamBuilder::world, stream::any_source_or_tag, 0, false, i == 1});
  }
  for (const std::int64_t from : {got, 3 - got}) all[0].receive(1, from, data(8)).wait({1});
  all[0].leave().end();
  all[1].access(true, heap, 20000);
  for (unsigned r = 1; r < 3; ++r) all[r].enter("MPI_Send").send(1, 0, data(8)).wait({1}).leave().end();
  return all;
}

// Does the first configuration decide a query, and does a repeated query wait for the next event? Is a stream with
// another recorded result replayed, and is the divergence counted?
void queries_are_answered() {
  using Words = std::vector<std::int64_t>;
  for (const std::int64_t got : {2, 1}) {
    std::vector<Words> replies;
    Streams all = polling(got);
    std::vector<replay::RankStream> sources;
    for (auto& one : all)
      sources.push_back({&one, [again = one] { return std::make_unique<StreamBuilder>(again); }, {}, {}});
    sources[0].send_reply = [&](std::span<const std::int64_t> words) {
      replies.emplace_back(words.begin(), words.end());
    };
    const auto replayed = replay::run_replay(test_machine(), cluster(3, 1), sources, {});
    const auto message = static_cast<std::int64_t>(stream::ReplyKind::probed_message);
    CHECK((replies == std::vector<Words>{{message, 0}, {message, 2, 2, 0}}));
    const auto& races = replayed.ranks[0].timing_sensitivity.races;
    CHECK((races.num_divergent_outcomes[0][0] > 0) == (got == 1));
  }
}

// Is a polling rank woken if all others wait for it, but only a limited number of times?
void a_failed_poll_ends() {
  Streams all = streams(2);
  for (auto& one : all) std::get<stream::RankInfo>(*one.first()).is_live = true;
  for (int i = 0; i < 3; ++i)
    all[0]
        .add(question(stream::QueryKind::probed_message, {}, 1))
        .add(stream::Probe{StreamBuilder::world, 1, 0, false, false});
  all[0].send(1, 1, data(8)).wait({1}).end();
  all[1].receive(1, 0, data(8)).wait({1}).end();
  CHECK(run(all, cluster(2, 1)).ranks[0].timing_sensitivity.failed_polls == 3);
  Streams endless = streams(2);
  for (int i = 0; i < 2000; ++i)
    endless[0]
        .add(question(stream::QueryKind::probed_message, {}, 1))
        .add(stream::Probe{StreamBuilder::world, 1, 0, false, false});
  endless[0].end();
  endless[1].receive(1, 0, data(8)).wait({1}).end();
  CHECK(problem_of(endless, cluster(2, 1)).find("rank 0 waits for any event") != std::string::npos);
}

}  // namespace

int main() {
  recorded_matches_are_replayed();
  recorded_tests_are_replayed();
  races_of_other_configurations_are_counted();
  queries_are_answered();
  a_failed_poll_ends();
  return failed_checks == 0 ? 0 : 1;
}

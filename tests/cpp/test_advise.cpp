// Are reuse distances those of an exact LRU stack, and does an analysis find what a hand-made stream does?
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <random>
#include <stdexcept>

#include "analysis/analysis.hpp"
#include "analysis/message_lines.hpp"
#include "analysis/reuse_distance.hpp"
#include "check.hpp"
#include "stream_builder.hpp"

namespace {

using namespace nearfield;
using namespace nearfield::advise;

// Different lines touched after the last touch of each, by a list: slow and plain.
class Stack {
 public:
  void touch(std::uint64_t line) {
    lines_.remove(line);
    lines_.push_front(line);
  }
  double depth(std::uint64_t line) const {
    return static_cast<double>(std::distance(lines_.begin(), std::ranges::find(lines_, line)));
  }

 private:
  std::list<std::uint64_t> lines_;
};

// Calls step(line) as a program might touch lines: sweeps over arrays, interleaved, and random ones between.
template <class Step>
void touch_many(std::uint64_t lines, int steps, Step step) {
  std::mt19937_64 random(7);
  for (int i = 0; i < steps; ++i) {
    const auto at = static_cast<std::uint64_t>(i) % lines;
    step(1000 + at);
    step(1000000 + at);
    if (i % 3 == 0) step(1000 + random() % lines);
  }
}

void exact_with_all_lines() {
  ReuseDistance reuse_distance(1 << 10, 1);
  Stack stack;
  std::map<std::uint64_t, Moment> touched;
  int n_queries = 0;
  // 400 lines fit the sample; 1600 steps fill the tree of 4096 places, so that moments are given up on the way.
  touch_many(200, 1600, [&](std::uint64_t line) {
    if (touched.contains(line) && ++n_queries % 5 == 0)
      CHECK(reuse_distance.lines_since(touched[line]) == stack.depth(line));
    reuse_distance.record_access(line);
    stack.touch(line);
    touched[line] = reuse_distance.current_moment();
  });
  CHECK(reuse_distance.sampling_rate() == 1);
  CHECK(n_queries > 2000);
}

void close_with_a_sample() {
  ReuseDistance reuse_distance(1 << 9);
  Stack stack;
  std::map<std::uint64_t, Moment> touched;
  double off = 0, worst = 0;
  int n_queries = 0, step = 0;
  touch_many(4000, 10000, [&](std::uint64_t line) {
    if (touched.contains(line) && ++step % 97 == 0) {
      const double exact = stack.depth(line), found = reuse_distance.lines_since(touched[line]);
      if (exact > 2000) {
        off += found / exact - 1;
        worst = std::max(worst, std::abs(found / exact - 1));
        ++n_queries;
      }
    }
    reuse_distance.record_access(line);
    stack.touch(line);
    touched[line] = reuse_distance.current_moment();
  });
  CHECK(n_queries > 100);
  CHECK(reuse_distance.sampling_rate() < 0.15);
  CHECK(std::abs(off / n_queries) < 0.15);  // 250 to 512 lines of 8,000 are sampled: sqrt(1 / 125) is 9 %
  CHECK(worst < 0.4);
}

void sizes_of_samples_are_checked() { CHECK_THROWS(ReuseDistance(1000)); }

void pages_are_sampled_when_there_are_many() {
  MessageLines few(64), all(64);
  few.add_lines(0, 64 * 1000 - 1);
  std::size_t known = 0;
  for (std::uint64_t page = 0; page < 1000; ++page) {
    MessageLine* const first = few.find_line(64 * page);
    if (!first) continue;
    ++known;
    CHECK(few.find_line(64 * page + 63) == first + 63);
  }
  CHECK(known > 16 && known <= 64);
  all.add_lines(100, 130);
  CHECK(all.find_line(100) && all.find_line(130) && !all.find_line(64 * 5));
}

constexpr std::uint64_t kib = 1024, buffer = 1 << 20, inbox = 2 << 20, other = 16 << 20;

StreamAnalysisResult analysed(const std::function<StreamBuilder()>& make) {
  StreamBuilder second = make();
  AnalysisOptions options;
  options.cache_capacities_bytes = {32 * kib, 256 * kib};
  return advise::analyze_stream(std::make_unique<StreamBuilder>(make()), second, options, {});
}

// Writes 8 KiB, touches `lines` lines of others, sends; receives 8 KiB, touches as many, and reads all.
StreamBuilder exchange(std::uint64_t lines) {
  StreamBuilder stream(0, 2);
  stream.access(true, buffer, kib).access(false, other, lines, 64);
  stream.enter("MPI_Send", 1).send(1, 1, {buffer, 8 * kib, 0}).wait({1}).leave();
  stream.enter("MPI_Recv", 2).receive(1, 1, {inbox, 8 * kib, 0});
  stream.add(stream::Outcome{1, 1, 0, 8 * kib}).wait({1}).leave();
  stream.access(false, other, lines, 64).access(false, inbox, kib);
  return stream.end();
}

void distances_of_messages() {
  for (const auto& [lines, expected] : {std::pair(10, 0), std::pair(2000, 1), std::pair(8000, 2)}) {
    const StreamAnalysisResult found =
        analysed([lines = lines] { return exchange(static_cast<std::uint64_t>(lines)); });
    CHECK(found.messages.size() == 2 && found.calls.size() == 2);
    for (const MessageGroup& one : found.messages) {
      CHECK(one.messages == 1 && one.bytes == 8 * kib && one.lines == 128 && one.num_untouched_lines == 0);
      const auto index = static_cast<std::size_t>(expected);
      CHECK(one.reuse_distances.lines[index] == 128);
      // Between are the lines of others, and those of the message itself but one.
      const double between = static_cast<double>(lines) + 127;
      CHECK(std::abs(one.reuse_distances.bytes[index] / 128 / 64 - between) < 5);
      CHECK(one.sites.empty() == (expected == 0));
    }
    CHECK(found.messages[0].is_send && !found.messages[1].is_send);
    CHECK(found.calls[0].name == "MPI_Send" && found.calls[1].frames[0].second == 0x102);
    CHECK(found.completions.size() == 2 && found.has_end_event && found.ranks == 2);
  }
}

void messages_that_nobody_reads() {
  const StreamAnalysisResult found = analysed([] {
    StreamBuilder stream(0, 2);
    stream.enter("MPI_Recv")
        .receive(1, 1, {inbox, 8 * kib, 0})
        .add(stream::Outcome{1, 1, 0, 4 * kib})
        .wait({1})
        .leave();
    stream.access(true, inbox, 8, 8);  // overwrites one line
    return stream.end();
  });
  CHECK(found.messages.size() == 1);
  CHECK(found.messages[0].bytes == 4 * kib && found.messages[0].lines == 64 &&
        found.messages[0].num_untouched_lines == 63);
}

// Ten messages of 8 bytes in a row are a burst; not if the rank reads between them what it received.
void bursts_of_small_messages() {
  for (const bool reads : {false, true}) {
    const StreamAnalysisResult found = analysed([reads] {
      StreamBuilder stream(0, 2);
      for (std::uint64_t i = 0; i < 10; ++i) {
        stream.access(true, buffer + 8 * i);
        stream.enter("MPI_Sendrecv").send(1, 1, {buffer + 8 * i, 8, 0}).receive(2, 1, {inbox + 8 * i, 8, 0});
        stream.add(stream::Outcome{2, 1, 0, 8}).wait({1, 2}).leave();
        if (reads) stream.access(false, inbox + 8 * i);
      }
      return stream.end();
    });
    CHECK(found.bursts.size() == (reads ? 0 : 1));
    if (!reads && !found.bursts.empty())
      CHECK(found.bursts[0].bursts == 1 && found.bursts[0].messages == 10 && found.bursts[0].bytes == 80);
  }
}

// Twenty messages in two rounds, of which the second one sends what was computed after the first; and one variable that
// is sent again and again.
void bursts_end_when_their_data_change() {
  for (const std::uint64_t gap_bytes : {64, 0}) {
    const StreamAnalysisResult found = analysed([gap_bytes] {
      StreamBuilder stream(0, 2);
      for (std::uint64_t i = 0; i < 20; ++i) {
        const std::uint64_t address = buffer + gap_bytes * (i % 10);
        if (i % 10 == 0 || gap_bytes == 0) stream.access(true, address, gap_bytes ? 80 : 1);
        stream.enter("MPI_Send").send(1, 1, {address, 8, 0}).wait({1}).leave();
      }
      return stream.end();
    });
    CHECK(found.bursts.size() == 1);
    CHECK(found.bursts[0].bursts == (gap_bytes ? 2u : 1u) && found.bursts[0].messages == 20);
  }
}

// A column of 16 doubles in rows of 64 bytes and more.
void strides_of_messages() {
  const StreamAnalysisResult found = analysed([] {
    StreamBuilder stream(0, 2);
    stream.add(stream::Layout{7, 128, 15 * 512 + 8, {{8, 8, 16, 512}}, "MPI_Type_vector"});
    stream.enter("MPI_Send").send(1, 1, {buffer, 1, 7}).wait({1}).leave();
    return stream.end();
  });
  CHECK(found.messages.size() == 1);
  const MessageGroup& messages = found.messages[0];
  CHECK(messages.piece_bytes == 8 && messages.stride_bytes == 512 && messages.address == buffer + 8 &&
        messages.lines == 16);
  CHECK(messages.num_untouched_lines == 16);
}

// Of five collectives, a barrier and two exchanges synchronise, one of these with a part that has no bytes.
void collectives_that_wait_for_all() {
  const StreamAnalysisResult found = analysed([] {
    StreamBuilder stream(0, 2);
    const StreamBuilder::Data eight{buffer, 8, 0}, none{inbox, 0, 0};
    const auto call = [&](const char* name, std::uint64_t place, stream::Collective event) {
      stream.enter(name, place).add(std::move(event)).leave();
    };
    using enum stream::CollectiveKind;
    call("MPI_Barrier", 1, {0, barrier, 0, 0, false, true, {}, {}});
    call("MPI_Bcast", 2, {0, bcast, 0, 0, false, true, {eight}, {}});
    call("MPI_Iallreduce", 3, {1, allreduce, 0, 0, false, true, {eight}, {eight}});
    call("MPI_Alltoallv", 4, {0, alltoallv, 0, 0, false, true, {eight, eight}, {eight, eight}});
    call("MPI_Alltoallv", 4, {0, alltoallv, 0, 0, false, true, {eight, none}, {eight, eight}});
    return stream.end();
  });
  CHECK(found.synchronizations.size() == 1);
  const SynchronizingCalls& waits = found.synchronizations[0];
  CHECK(waits.context == 1 && waits.world == (std::vector<std::uint64_t>{0, 1}));
  CHECK(waits.calls == (std::vector<std::uint64_t>{0, 3, 3}) &&
        waits.times_ns == (std::vector<std::uint64_t>{10, 10, 0}));
}

void progress_may_end_it() {
  StreamBuilder second = exchange(10);
  const auto enough = [](std::uint64_t) { throw std::runtime_error("enough"); };
  CHECK_THROWS(advise::analyze_stream(std::make_unique<StreamBuilder>(exchange(10)), second, {}, enough));
}

}  // namespace

int main() {
  exact_with_all_lines();
  close_with_a_sample();
  sizes_of_samples_are_checked();
  pages_are_sampled_when_there_are_many();
  distances_of_messages();
  messages_that_nobody_reads();
  bursts_of_small_messages();
  bursts_end_when_their_data_change();
  strides_of_messages();
  collectives_that_wait_for_all();
  progress_may_end_it();
  return failed_checks != 0;
}

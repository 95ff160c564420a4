// What does the prefetcher fetch, when does it arrive, and what does it occupy? Times are those of a small machine, and
// streams are compared with a plain list of them.
#include <vector>

#include "check.hpp"
#include "list_prefetcher.hpp"
#include "memory_traces.hpp"
#include "sim/memory/counts.hpp"
#include "sim/memory/memory.hpp"
#include "sim/memory/prefetcher.hpp"
#include "test_machine.hpp"

namespace {

using namespace nearfield;
using namespace nearfield::sim;

constexpr unsigned word = 8;
constexpr Address line = 128;

double ns(const NodeMemory& memory) { return memory.now(0)[0] / 1e3; }

// A cycle is 1 ns; memory latency is 100 ns.
Machine with_prefetcher(int misses, int level = 1) {
  Machine machine = test_machine();
  machine.core.window = 0;
  machine.core.outstanding_misses = misses;
  machine.prefetcher = Prefetcher{4, 2, level};
  return machine;
}

// A core waits for a prefetched line in flight as for a miss: in the background.
void a_line_in_flight_stalls_nobody(int level) {
  NodeMemory memory(with_prefetcher(8, level));
  for (Address i = 0; i < 2; ++i) memory.access(0, Access::load, i * line, word);  // the second one prefetches line 3
  const double begun = ns(memory);
  memory.access(0, Access::store, 3 * line, word);
  CHECK(ns(memory) == begun + 1);
  memory.access(0, Access::chase, 3 * line + word, word);
  CHECK(ns(memory) < begun + 10);  // its own first cache has it by now, as the simulation has it
  memory.drain(0);
  CHECK(ns(memory) > 100);
}

// Prefetches occupy slots that misses wait for; an access to such a line occupies no further slot.
void prefetches_take_slots_of_misses() {
  const auto until_third = [](Address third, int misses, int own = 0) {
    Machine machine = with_prefetcher(misses);
    machine.prefetcher->outstanding = own;
    NodeMemory memory(machine);
    for (Address i = 0; i < 2; ++i) memory.access(0, Access::load, i * line, word);  // the second one prefetches line 3
    memory.access(0, Access::load, third, word);
    return ns(memory);
  };
  CHECK(until_third(64 * line, 8) == 3);
  CHECK(until_third(64 * line, 3) >= 100);  // two misses and the prefetch hold all three
  CHECK(until_third(64 * line, 3, 1) == 3);
  CHECK(until_third(3 * line, 3) == 3);
  NodeMemory full(with_prefetcher(2));
  for (Address i = 0; i < 2; ++i) full.access(0, Access::load, i * line, word);
  CHECK(full.counts().levels[1].prefetches == 0);  // both slots are occupied: nothing is prefetched
}

// No stream continues into another page.
void streams_end_with_their_page() {
  NodeMemory memory(with_prefetcher(64));
  const Address lines = 4096 / line;
  for (Address i = 0; i < lines; ++i) memory.access(0, Access::load, i * line, word);
  CHECK(memory.counts().levels[1].prefetches == lines - 3);  // of lines 3 to 31
  CHECK(!memory.cached_copy_state(0, 1, 4096).present && !memory.cached_copy_state(0, 1, 4096 + line).present);
  memory.access(0, Access::load, 4096, word);
  CHECK(memory.counts().levels[1].prefetches == lines - 3);  // a new stream needs two lines
}

// If a cache has no more sets than the prefetch distance, a prefetched line evicts the line whose access triggered it,
// and a cache that includes L1 removes that line from L1.
void sweeps_notice_what_is_fetched_over_them() {
  Machine machine = with_prefetcher(8, 1);
  machine.caches[0].size_bytes = line;
  machine.caches[1].size_bytes = 2 * line;
  machine.caches[0].ways = machine.caches[1].ways = 1;
  machine.caches[1].inclusion = Inclusion::inclusive;
  NodeMemory grouped(machine), single(machine);
  grouped.sweep(0, Access::load, 0, 64, word, word);
  for (Address i = 0; i < 64; ++i) single.access(0, Access::load, i * word, word);
  CHECK(single.counts().levels[0].misses > 4);  // lines
  CHECK(grouped.counts().levels[0].misses == single.counts().levels[0].misses && ns(grouped) == ns(single));
}

// An upward and a downward stream expect the same line; when it is accessed, one of them continues and the other ends.
void one_of_two_streams_that_meet_continues() {
  StreamPrefetcher prefetcher(Prefetcher{4, 2, 1}, line, 4096);
  for (const Address at : {1, 2, 6, 5, 4}) prefetcher.on_miss(at * line);
  CHECK(prefetcher.on_miss(3 * line).has_value());
  CHECK(!prefetcher.on_miss(3 * line));
}

// Streams begin, continue and end as in a plain list.
void streams_are_followed_as_in_a_list() {
  Random random{5};
  int followed = 0;
  for (int machine = 0; machine < 200; ++machine) {
    const Prefetcher prefetcher{random.between(1, 63), random.between(1, 6), 1};
    StreamPrefetcher streams(prefetcher, line, 4096);
    ListPrefetcher list(prefetcher, 4096 / line);
    const int lines = 1 << random.between(3, 14);
    int at = 0, direction = 1;
    for (int access = 0; access < 600; ++access) {
      const int what = random.between(0, 9);
      if (what < 3) at = random.between(0, lines - 1);
      if (what == 3) direction = -direction;
      if (what > 4) at = (at + direction + lines) % lines;
      const auto target = streams.on_miss(static_cast<Address>(at) * line);
      const auto expected = list.on_miss(at);
      followed += expected.has_value();
      CHECK(target.has_value() == expected.has_value());
      CHECK(!target || !expected || target->line == static_cast<Address>(*expected) * line);
    }
  }
  CHECK(followed > 1000);
}

// A line that another core holds modified is prefetched from its cache, and both share it then.
void prefetches_are_served_by_other_cores() {
  NodeMemory memory(with_prefetcher(8));
  memory.access(1, Access::store, 3 * line, word);
  for (Address i = 0; i < 2; ++i) memory.access(0, Access::load, i * line, word);
  CHECK(memory.cached_copy_state(0, 1, 3 * line).present && memory.cached_copy_state(0, 1, 3 * line).shared);
  CHECK(memory.cached_copy_state(1, 1, 3 * line).shared && memory.counts().transfers == 1);
}

// A prefetch that hits in an outer cache is a use of that cache: the line is not evicted next.
void a_prefetch_is_a_use() {
  NodeMemory memory(with_prefetcher(64));
  const Address set = 3 * line,
                distance = 32768;  // lines at this distance share a set of the last cache, which has 8 ways
  for (Address i = 0; i < 8; ++i) memory.access(0, Access::load, set + i * distance, word);
  CHECK(!memory.cached_copy_state(0, 1, set).present && memory.cached_copy_state(0, 2, set).present);
  for (Address i = 0; i < 2; ++i) memory.access(0, Access::load, i * line, word);  // the second one prefetches line 3
  CHECK(memory.cached_copy_state(0, 1, set).present);
  memory.access(0, Access::load, set + 8 * distance, word);
  CHECK(memory.cached_copy_state(0, 2, set).present && !memory.cached_copy_state(0, 2, set + distance).present);
}

}  // namespace

int main() {
  for (const int level : {0, 1}) a_line_in_flight_stalls_nobody(level);
  prefetches_take_slots_of_misses();
  streams_end_with_their_page();
  sweeps_notice_what_is_fetched_over_them();
  one_of_two_streams_that_meet_continues();
  streams_are_followed_as_in_a_list();
  prefetches_are_served_by_other_cores();
  a_prefetch_is_a_use();
  return failed_checks != 0;
}

// Do the costs that a machine's file may name, and older files do not, take the time that they say? Each is worked out
// by hand on a small machine, and without its key nothing happens.
#include <cmath>
#include <vector>

#include "check.hpp"
#include "rank_programs.hpp"
#include "sim/memory/counts.hpp"
#include "sim/memory/memory.hpp"
#include "test_machine.hpp"

namespace {

using namespace nearfield;
using namespace nearfield::sim;

constexpr Address line = 128, begin = 1 << 20, other = 1 << 24;

double ns(const NodeMemory& memory, int core = 0) { return memory.now(core)[0] / 1e3; }
bool is_near(double a, double b) { return std::abs(a - b) < 1e-3; }

// A copy of 8 lines in L1, 32 bytes a cycle.
void a_copy_takes_the_described_rate() {
  Machine machine = test_machine();
  const auto copied = [&machine](std::uint64_t bytes, Address shift) {
    NodeMemory memory(machine);
    for (int i = 0; i < 2; ++i) memory.copy(0, other, begin + shift, bytes);
    memory.drain(0);
    const double start = ns(memory);
    memory.copy(0, other, begin + shift, bytes);
    return ns(memory) - start;
  };
  CHECK(is_near(copied(8 * line, 0), 2 * 8 * line / 8));  // words of 8 bytes, a load and a store each
  machine.core.copy_bytes_per_cycle = 32;
  CHECK(is_near(copied(8 * line, 0), 8 * line / 32));
  // Loads that are not aligned touch two lines each.
  CHECK(copied(8 * line, 40) >= 8 * line / 32 && copied(8 * line, 40) <= 8 * line / 32 + 9);
  CHECK(is_near(copied(1, 0), 2));          // no access takes less than one of a word
  machine.core.copy_bytes_per_cycle = 256;  // faster than one access a cycle for each line
  CHECK(is_near(copied(8 * line, 0), 8 * line / 256));
}

// Two stores to a line that another core has loaded: only the first takes it away.
void a_store_to_a_shared_line_takes_longer() {
  for (const double upgrade : {0.0, 25.0}) {
    Machine machine = test_machine();
    machine.transfers.upgrade_cycles = upgrade;
    NodeMemory memory(machine);
    memory.sweep(0, Access::store, begin, 4, line, 8);
    memory.drain(0);
    const double start = ns(memory);
    memory.sweep(0, Access::store, begin, 4, line, 8);
    CHECK(is_near(ns(memory) - start, 4));  // nobody else had them
    memory.sweep(1, Access::load, begin, 4, line, 8);
    for (const double expected : {4 * (1 + upgrade), 4.0}) {
      const double before = ns(memory);
      memory.sweep(0, Access::store, begin, 4, line, 8);
      CHECK(is_near(ns(memory) - before, expected));
    }
  }
}

// Twice as many lines as the nearest cache has, so that each store misses it.
void a_store_that_misses_has_a_separate_cost() {
  const auto stored = [](double upgrade, double upgrade_miss, bool misses) {
    Machine machine = test_machine();
    machine.transfers.upgrade_cycles = upgrade;
    machine.transfers.upgrade_miss_cycles = upgrade_miss;
    const auto lines = misses ? 2 * machine.caches[0].size_bytes / line : 4;
    NodeMemory memory(machine);
    memory.sweep(0, Access::store, begin, lines, line, 8);
    memory.sweep(1, Access::load, begin, lines, line, 8);
    memory.drain(0);
    const double start = ns(memory);
    memory.sweep(0, Access::store, begin, lines, line, 8);
    memory.drain(0);
    return (ns(memory) - start) / static_cast<double>(lines);
  };
  CHECK(is_near(stored(25, 80, false), stored(25, 0, false)));
  CHECK(is_near(stored(25, 0, true), stored(25, 25, true)));
  CHECK(stored(25, 80, true) > stored(25, 25, true) + 50);
}

// 16 lines that another core has modified: as many at a time as the machine says.
void transfers_in_flight_are_limited() {
  const auto read_ns = [](int outstanding) {
    Machine machine = test_machine();
    machine.core.outstanding_misses = 16;
    machine.transfers.outstanding = outstanding;
    NodeMemory memory(machine);
    memory.sweep(1, Access::store, begin, 16, line, 8);
    memory.drain(1);
    const double start = ns(memory);
    memory.sweep(0, Access::load, begin, 16, line, 8);
    memory.drain(0);
    return ns(memory) - start;
  };
  const double transfer = test_machine().transfers.shared_cycles;
  CHECK(read_ns(0) < transfer + 16 + 1);
  CHECK(is_near(read_ns(1), 16 * transfer));
  CHECK(read_ns(4) >= 4 * transfer && read_ns(4) < 4 * transfer + 16);
}

// Loads of lines in L1, one of each page, which the TLB does not have.
double translated_ns(int walkers, Access kind) {
  Machine machine = test_machine();
  machine.pages.tlbs = {{4, 4, 50}};
  machine.pages.walkers = walkers;
  NodeMemory memory(machine);
  const std::int64_t stride = 4096 + line;
  for (int i = 0; i < 2; ++i) memory.sweep(0, kind, begin, 8, stride, 8);
  memory.drain(0);
  const double start = ns(memory);
  memory.sweep(0, kind, begin, 8, stride, 8);
  memory.drain(0);
  return ns(memory) - start;
}

void walks_overlap_unless_loads_depend_on_each_other() {
  CHECK(is_near(translated_ns(0, Access::load), 8 * (50 + 1)));
  CHECK(is_near(translated_ns(1, Access::load), 8 * 50));
  CHECK(translated_ns(4, Access::load) < 8 * 50 / 4 + 50);
  for (const int walkers : {0, 1, 4}) CHECK(is_near(translated_ns(walkers, Access::chase), 8 * (50 + 2)));
}

// A chain of consecutive lines: a stream is found by two misses, and all other lines of the page are there in time.
void a_stream_that_starts_with_all_lines_misses_two_of_a_page() {
  for (const int level : {0, 1}) {
    Machine machine = test_machine();
    machine.prefetcher = Prefetcher{4, 8, level, 16, PrefetchExtent::all};
    NodeMemory memory(machine);
    constexpr Count lines_of_page = 4096 / line;
    memory.sweep(0, Access::chase, begin, lines_of_page, line, 8);
    const auto counts = memory.counts();
    CHECK(counts.dram.reads == 2 && counts.dram.prefetches == lines_of_page - 2);
    CHECK(counts.levels[static_cast<std::size_t>(level)].misses == 2);
    machine.prefetcher->start = PrefetchExtent::one;  // lines up to the distance are missed
    NodeMemory one(machine);
    one.sweep(0, Access::chase, begin, lines_of_page, line, 8);
    CHECK(one.counts().dram.reads > 8);
    CHECK(ns(one) > ns(memory));
  }
}

double message_ns(const Machine& machine, const Program& program) {
  Cluster cluster(machine, options(1, 2, true));
  const Outcome outcome = cluster.run(program);
  return outcome.ranks[1].marks.front().stop[0][0] / 1e3 - outcome.ranks[1].marks.front().start[0][0] / 1e3;
}

Program received(Buffer (*layout)(Address), std::uint64_t room) {
  return [layout, room](Rank& rank) -> Task<> {
    const Buffer buffer = layout(rank.allocate(room));
    rank.start_mark();
    if (rank.rank() == 0) co_await rank.wait(rank.send(1, buffer, 5));
    if (rank.rank() == 1) co_await rank.wait(rank.receive(0, buffer, 5));
    rank.stop_mark();
  };
}

void a_kernel_copy_costs_time_per_page() {
  Machine machine = test_machine();
  machine.messaging.node = "single-copy";
  const Program program = received([](Address at) { return Buffer(at + 4000, 8192); }, 1 << 16);
  const double before = message_ns(machine, program);
  machine.messaging.copy_page_ns = 100;
  CHECK(is_near(message_ns(machine, program) - before, 3 * 100));  // 8 KiB that begin inside a page
}

void a_short_message_is_in_the_line_that_announces_it() {
  Machine machine = test_machine();
  machine.messaging.node = "node-eager";
  const Program program = received([](Address at) { return Buffer(at, 32); }, 4096);
  const double staged = message_ns(machine, program);
  machine.messaging.inline_bytes = 31;
  CHECK(is_near(message_ns(machine, program), staged));
  machine.messaging.inline_bytes = 32;
  CHECK(message_ns(machine, program) < staged);  // one line less is transferred
}

// With a list of packets, a sender gets the list's line from the receiver, which reads it and then the header. A message
// that its sender need not wait for does not go through the list.
void packets_in_a_list_cost_further_transfers() {
  Machine machine = test_machine();
  const Program short_message = received([](Address at) { return Buffer(at, 32); }, 4096);
  const Program long_message = received([](Address at) { return Buffer(at, 2048); }, 4096);
  const auto more_ns = [&machine](const char* node, const Program& program) {
    machine.messaging.node = node;
    machine.messaging.headers = PacketHeader::in_line;
    const double in_line = message_ns(machine, program);
    machine.messaging.headers = PacketHeader::separate;
    return message_ns(machine, program) - in_line;
  };
  machine.messaging.node_eager_bytes = 1024;
  const double transfer_ns = machine.transfers.shared_cycles;  // its clock has 1 GHz
  CHECK(is_near(more_ns("node-eager", short_message), 0));
  const double more = more_ns("single-copy", long_message);
  CHECK(more >= transfer_ns);
  CHECK(more <= 4 * (transfer_ns + machine.dram.latency_ns));  // two packets, whose lines come from memory at first
  machine.messaging.unattended_bytes = 31;
  CHECK(more_ns("node-eager", short_message) >= transfer_ns);
}

// The receiver computes for a millisecond before it receives.
void a_send_that_is_attended_ends_when_the_receiver_has_taken_the_message() {
  const auto send_ns = [](std::uint64_t unattended_bytes) {
    Machine machine = test_machine();
    machine.messaging.node = "node-eager";
    machine.messaging.node_eager_bytes = 4096;
    machine.messaging.unattended_bytes = unattended_bytes;
    Cluster cluster(machine, options(1, 2, true));
    const Outcome outcome = cluster.run([](Rank& rank) -> Task<> {
      const Buffer buffer(rank.allocate(1024), 1024);
      rank.start_mark();
      if (rank.rank() == 0) co_await rank.wait(rank.send(1, buffer, 5));
      if (rank.rank() == 1) rank.compute(ps_from_ns(1e6));
      if (rank.rank() == 1) co_await rank.wait(rank.receive(0, buffer, 5));
      rank.stop_mark();
    });
    const Mark& mark = outcome.ranks[0].marks.front();
    return (mark.stop[0][0] - mark.start[0][0]) / 1e3;
  };
  CHECK(send_ns(Machine().messaging.unattended_bytes) < 1e5);
  CHECK(send_ns(1024) < 1e5);
  CHECK(send_ns(1023) > 1e6 && send_ns(1023) < 1.1e6);
}

void data_in_pieces_have_a_separate_protocol() {
  const auto pieces_ns = [](const char* node, const char* pieces, bool contiguous, std::uint64_t min_pieces = 2) {
    Machine machine = test_machine();
    machine.messaging.node = node;
    machine.messaging.pieces = pieces;
    machine.messaging.min_pieces = min_pieces;
    machine.messaging.node_eager_bytes = 256;
    const auto layout =
        contiguous ? [](Address at) { return Buffer(at, 512); } : [](Address at) { return Buffer(at, 64, 8, 16); };
    return message_ns(machine, received(layout, 1 << 16));
  };
  const double copied = pieces_ns("copy-in-copy-out", "", false), single = pieces_ns("single-copy", "", false);
  CHECK(copied != single);
  CHECK(is_near(pieces_ns("single-copy", "copy-in-copy-out", false), copied));
  CHECK(is_near(pieces_ns("single-copy", "copy-in-copy-out", true), pieces_ns("single-copy", "", true)));
  CHECK(is_near(pieces_ns("single-copy", "copy-in-copy-out", false, 64), copied));
  CHECK(is_near(pieces_ns("single-copy", "copy-in-copy-out", false, 65), single));
}

void each_piece_of_a_datatype_costs_the_core() {
  Machine machine = test_machine();
  machine.messaging.node = "single-copy";
  const Program whole = received([](Address at) { return Buffer(at, 512); }, 1 << 16);
  const Program pieces = received([](Address at) { return Buffer(at, 64, 8, 16); }, 1 << 16);
  const double whole_ns = message_ns(machine, whole), pieces_ns = message_ns(machine, pieces);
  machine.messaging.piece_ns = 7;
  CHECK(is_near(message_ns(machine, whole), whole_ns));
  CHECK(message_ns(machine, pieces) >= pieces_ns + 64 * 7);  // the receiver's; it waits for the sender's, too
}

void a_mark_contains_one_reading_of_the_clock() {
  Machine machine = test_machine();
  const Program nothing = [](Rank& rank) -> Task<> {
    rank.start_mark();
    rank.stop_mark();
    co_return;
  };
  CHECK(is_near(message_ns(machine, nothing), 0));
  machine.core.clock_reading_ns = 30;
  CHECK(is_near(message_ns(machine, nothing), 30));
}

}  // namespace

int main() {
  a_copy_takes_the_described_rate();
  a_store_to_a_shared_line_takes_longer();
  a_store_that_misses_has_a_separate_cost();
  transfers_in_flight_are_limited();
  walks_overlap_unless_loads_depend_on_each_other();
  a_stream_that_starts_with_all_lines_misses_two_of_a_page();
  a_kernel_copy_costs_time_per_page();
  a_short_message_is_in_the_line_that_announces_it();
  packets_in_a_list_cost_further_transfers();
  a_send_that_is_attended_ends_when_the_receiver_has_taken_the_message();
  data_in_pieces_have_a_separate_protocol();
  each_piece_of_a_datatype_costs_the_core();
  a_mark_contains_one_reading_of_the_clock();
  return failed_checks != 0;
}

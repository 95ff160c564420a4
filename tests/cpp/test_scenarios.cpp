// Do simulated scenarios give the counts and times that are computed by hand, on machines made for that?
#include <cstdio>
#include <map>
#include <string>

#include "check.hpp"
#include "machine/machine.hpp"
#include "sim/memory/memory.hpp"
#include "sim/run/scenarios/pair.hpp"

namespace {

using namespace nearfield::sim;
using nearfield::Cache;
using nearfield::Machine;
using nearfield::Parameters;

constexpr std::int64_t line = 64;
constexpr PairPlacement within{false, 0, 1}, between{true, 0, 1};

// Two cores at 1 GHz with a cache of 64 KiB each. Memory has a latency of 100 ns, one outstanding load, and unlimited
// bandwidth. Messages of any size use the eager protocol.
Machine small_machine() {
  Machine machine;
  machine.name = "made-up";
  machine.cores = 2;
  machine.core = {1.0, 1.0, 1};
  Cache cache;
  cache.size_bytes = 64 << 10;
  cache.ways = 64;
  cache.line_bytes = line;
  cache.latency_cycles = 1;
  machine.caches = {cache};
  machine.dram.latency_ns = 100;
  machine.dram.gb_per_s = 1e6;
  machine.transfers.remote_cycles = 50;
  machine.messaging.eager_bytes = machine.messaging.node_eager_bytes = 1 << 20;
  machine.nic.emplace();
  machine.nic->gb_per_s = 1;
  machine.nic->event_bytes = line;
  machine.nic->event_entries = 8;
  machine.network.emplace();
  machine.network->link_gb_per_s = 1;
  machine.max_nodes = 2;
  return machine;
}

using Values = std::map<std::string, double>;

// Values by name, such as "send.sender".
Values run(const char* scenario, const Machine& machine, const PairPlacement& place, const Parameters& parameters) {
  Values values;
  for (const auto& result : find_scenario(scenario).run({machine, place, parameters}))
    if (result.value) values[result.metric + (result.side.empty() ? "" : "." + result.side)] = *result.value;
  return values;
}

Values in_state(const char* scenario, const PairPlacement& place, std::int64_t bytes, const char* state) {
  return run(scenario, small_machine(), place, {{"size_bytes", bytes}, {"state", state}});
}

// Reading n lines takes one access per ns if they are cached; otherwise 100 ns per line. (Two cores of one memory may
// also wait for each other.)
void reading_takes_what_memory_takes() {
  for (const PairPlacement& place : {within, between})
    for (const std::int64_t lines : {1, 16, 100}) {
      const auto cold = in_state("pollution", place, lines * line, "base-invalid");
      const auto warm = in_state("pollution", place, lines * line, "base-preloaded");
      for (const char* side : {".sender", ".receiver"}) {
        const std::string of = side;
        CHECK(warm.at("traverse" + of) == static_cast<double>(lines * line / 8));
        if (place.between_nodes)
          CHECK(cold.at("traverse" + of) == static_cast<double>(lines * 100));
        else
          CHECK(cold.at("traverse" + of) >= static_cast<double>(lines * 100));
        CHECK(warm.at("llc_misses" + of) == 0);
        CHECK(cold.at("llc_misses" + of) == static_cast<double>(lines));
        CHECK(cold.at("llc_accesses" + of) == static_cast<double>(lines * line / 8));
      }
    }
}

// An eager send of an uncached message loads it once more, an eager receive stores it once more: one additional miss
// per line. Data that the NIC wrote is in no cache in either case.
void eager_messages_miss_what_was_not_cached() {
  constexpr std::int64_t lines = 32;
  const auto cold = in_state("pingpong", between, lines * line, "invalid");
  for (const char* state : {"exclusive", "modified"}) {
    const auto warm = in_state("pingpong", between, lines * line, state);
    CHECK(cold.at("send_llc_misses.sender") - warm.at("send_llc_misses.sender") == lines);
    CHECK(cold.at("receive_llc_misses.receiver") - warm.at("receive_llc_misses.receiver") == lines);
    CHECK(warm.at("receive_llc_misses.receiver") >= lines);
    CHECK(warm.at("half_round_trip") < cold.at("half_round_trip"));
  }
}

// After an eager call both sides have the message in their caches; base-invalid shows the misses that this saves.
void eager_calls_leave_messages_cached() {
  for (const char* state : {"invalid", "preloaded"}) {
    const auto after = in_state("pollution", between, 64 * line, state);
    CHECK(after.at("llc_misses.sender") == 0);
    CHECK(after.at("llc_misses.receiver") == 0);
  }
}

// With rendezvous the NIC writes the message to memory: the receiver's copies are invalidated, the sender's are not.
void rendezvous_takes_the_message_out_of_the_receivers_cache() {
  Machine machine = small_machine();
  machine.messaging.eager_bytes = 0;
  const Parameters preloaded{{"size_bytes", 64 * line}, {"state", "preloaded"}};
  const auto after = run("pollution", machine, between, preloaded);
  CHECK(after.at("llc_misses.sender") == 0);
  CHECK(after.at("llc_misses.receiver") == 64);
  const Parameters exclusive{{"size_bytes", 64 * line}, {"state", "exclusive"}};
  const auto call = run("pingpong", machine, between, exclusive);
  CHECK(call.at("receive_invalidations.receiver") >= 64);
  CHECK(call.at("send_invalidations.sender") < 64);
}

// Inside a node the two sides' misses are counted separately: the receiver's copy reads the sender's cache, which loses
// only exclusive ownership; the sender writes its buffer again next time.
void sides_of_a_node_are_counted_separately() {
  constexpr std::int64_t lines = 32;
  const auto cold = in_state("pingpong", within, lines * line, "invalid");
  const auto warm = in_state("pingpong", within, lines * line, "exclusive");
  CHECK(cold.at("send_llc_misses.sender") - warm.at("send_llc_misses.sender") == lines);
  CHECK(cold.at("receive_llc_misses.receiver") - warm.at("receive_llc_misses.receiver") == lines);
}

// There is one fault per page; a TLB of four entries misses every page again when memory is read in order a second
// time.
void pages_fault_once_and_miss_small_tlbs() {
  Machine machine = small_machine();
  machine.cores = 1;
  machine.pages.fault_ns = 1000;
  machine.pages.tlbs = {{4, 4, 10.0}};
  const auto base = run("pages", machine, within, {{"size_bytes", 16 * 4096}, {"memory", "private"}});
  const auto huge = run("pages", machine, within, {{"size_bytes", 16 * 4096}, {"memory", "private-huge"}});
  CHECK(base.at("first_touch_faults") == 16 && base.at("first_touch_dtlb_misses") == 16);
  CHECK(base.at("traverse_faults") == 0 && base.at("traverse_dtlb_misses") == 16);
  CHECK(huge.at("first_touch_faults") == 1 && huge.at("traverse_dtlb_misses") == 0);
  CHECK(huge.at("huge_bytes") == 16 * 4096 && base.at("huge_bytes") == 0);
  // Memory latency overlaps: 100 ns less 8 accesses are hidden behind each of the 15 further loads.
  CHECK(base.at("first_touch") - huge.at("first_touch") == 15 * (1010 - (100 - 8)));
  CHECK(!find_scenario("pages").unsupported_reason(small_machine(), within).empty());
}

// Doubles at a stride of one line miss each; contiguous ones share a miss among eight.
void strides_miss_every_line() {
  const auto with = [](std::int64_t stride, const char* method) {
    return run("stride", small_machine(), between,
               {{"size_bytes", 1 << 20}, {"stride", stride}, {"method", method}, {"mode", "standard"}});
  };
  const auto contiguous = with(1, "datatype"), strided = with(8, "datatype");
  CHECK(contiguous == with(1, "contiguous"));
  // 2^17 elements are sent and received, in 2^14 lines if contiguous; internal buffers add the same to both.
  CHECK(strided.at("llc_misses.sender") - contiguous.at("llc_misses.sender") == 2 * ((1 << 17) - (1 << 14)));
}

// Two messages without a common link do not contend; on the links of a ring of routers they do.
void load_is_felt_where_links_are_shared() {
  Machine machine = small_machine();
  machine.max_nodes = 6;
  const auto with = [&](const char* topology, std::vector<int> shape, std::int64_t load) {
    machine.network->topology = topology;
    machine.network->shape = std::move(shape);
    const Parameters parameters{{"size_bytes", 65536}, {"load_bytes", load}};
    return run("load", machine, {true, 0, 3}, parameters).at("half_round_trip");
  };
  CHECK(with("full", {}, 0) == with("full", {}, 65536));
  CHECK(with("torus", {6}, 0) < with("torus", {6}, 65536));
  CHECK(with("torus", {6}, 65536) == with("torus", {6}, 65536));
  CHECK(!find_scenario("load").unsupported_reason(small_machine(), between).empty());
}

// The order of a stencil's updates changes neither the accesses nor, while all data fits into the cache, the misses.
void orders_of_a_stencil_miss_alike_in_the_cache() {
  const auto with = [](const char* variant) {
    return run("stencil", small_machine(), between, {{"size_bytes", 256}, {"variant", variant}});
  };
  const auto first = with("listing-1");
  for (const char* variant : {"opt1", "opt2"})
    CHECK(with(variant).at("llc_misses.sender") == first.at("llc_misses.sender"));
  // 32 rows of 32 elements, all but one row new: three loads and a store of 1 ns each, and the messages.
  CHECK(first.at("iteration") > 31 * 32 * 4);
  CHECK_THROWS(with("opt3"));
}

// Loads that bypass the caches wait only for each other; as many are outstanding as the machine has registers.
void loads_that_bypass_caches_overlap() {
  const auto loads_ns = [](int misses, int bypass) {
    Machine machine = small_machine();
    machine.core.outstanding_misses = misses;
    machine.core.outstanding_bypass = bypass;
    NodeMemory memory(machine);
    memory.sweep(0, Access::load_nontemporal, 0, 64, 8, 8);
    memory.drain(0);
    return memory.now(0)[0] / 1e3;
  };
  CHECK(loads_ns(1, 0) == 64 * 100);
  CHECK(loads_ns(8, 0) == 8 * 100 + 7);  // one per ns, eight outstanding
  CHECK(loads_ns(1, 8) == loads_ns(8, 0));
  CHECK(loads_ns(8, 1) == loads_ns(1, 0));
}

// A split along the last dimension sends single elements, one along the first whole planes; all sweep equally many
// cells.
void splits_differ_by_their_faces() {
  const auto with = [](const char* split) {
    return run("decomposition", small_machine(), within,
               {{"cells", 32}, {"split", std::string(split)}, {"mode", std::string("standard")}});
  };
  const auto x = with("4x1x1"), z = with("1x1x4"), xy = with("2x2x1");
  // The accesses of a rank are 8 x 30 x 30 cells with seven loads and a store.
  CHECK(x.at("iteration") - x.at("exchange") >= 8 * 30 * 30 * 8);
  CHECK(z.at("exchange") > x.at("exchange"));
  CHECK(xy.at("iteration") > 0);
  CHECK(with("4x1x1") == x);
  for (const char* wrong : {"4x1", "3x1x1", "4x1x1x1", "32x1x1", "0x1x1"}) CHECK_THROWS(with(wrong));
}

// A bcast to one other core is one message; an exchange of a pair is one message in each direction at once, which takes
// no longer than both in turn.
void collectives_of_two_are_messages() {
  const Machine machine = small_machine();
  CHECK(machine.cores == 2);
  const auto time_of = [&](const char* operation, std::int64_t bytes) {
    return run("collective", machine, within, {{"operation", operation}, {"size_bytes", bytes}, {"ranks", 2}})
        .at("time");
  };
  for (const std::int64_t bytes : {512, 8192}) {
    const double message = in_state("pingpong", within, bytes, "modified").at("half_round_trip");
    CHECK(time_of("bcast", bytes) > message / 2 && time_of("bcast", bytes) < 2 * message);
    CHECK(time_of("allgather", bytes) >= time_of("bcast", bytes) && time_of("alltoall", bytes) < 4 * message);
    CHECK(time_of("bcast", 2 * bytes) > time_of("bcast", bytes));
  }
  Machine alone = machine;
  alone.cores = alone.max_nodes = 1;
  CHECK(!find_scenario("collective").unsupported_reason(alone, within).empty());
}

// Does every scenario give a time for every requested policy and memory speed, and is slower memory never faster?
void scenarios_have_axes() {
  Machine machine = small_machine();
  machine.cores = 4;
  machine.max_nodes = 8;
  for (const auto* spec : all_scenarios()) {
    if (!spec->unsupported_reason(machine, between).empty()) continue;
    const auto cases = spec->cases(machine, between, {{"quick", {4096}, llc_bytes(machine)}, {}});
    CHECK(!cases.empty());
    if (cases.empty()) continue;
    const Parameters& parameters = cases.front();
    SimulationSettings settings;
    settings.memory_slowdown = {1, 3};
    if (spec->num_policies > 1) settings.policies = {"memory", "ddio"};
    std::map<std::string, std::map<int, double>> times;  // by policy and metric, for each speed
    for (const auto& result : spec->run({machine, between, parameters, settings}))
      if (result.unit == "ns")
        times[std::to_string(result.variant) + result.metric + result.side][result.speed] = *result.value;
    CHECK(!times.empty());
    bool second_policy = false;
    for (const auto& [of, by_speed] : times) {
      CHECK(by_speed.size() == 2 && by_speed.at(0) <= by_speed.at(1));
      second_policy = second_policy || of.starts_with('1');
    }
    CHECK(second_policy == (spec->num_policies > 1));
  }
  const Parameters parameters{{"size_bytes", 8}, {"state", "invalid"}};
  SimulationSettings too_many;
  too_many.memory_slowdown = {1, 2, 3, 4, 5};
  CHECK_THROWS(find_scenario("pingpong").run({machine, between, parameters, too_many}));
}

// Are the results of every scenario reproducible, and does it report why it cannot run?
void scenarios_repeat_and_refuse() {
  const Machine machine = small_machine();
  for (const auto* spec : all_scenarios())
    for (const auto& parameters :
         spec->cases(machine, within, CaseSelection{{"quick", {4096}, llc_bytes(machine)}, {}})) {
      if (!spec->unsupported_reason(machine, within).empty()) continue;
      CHECK(run(spec->info.name.c_str(), machine, within, parameters) ==
            run(spec->info.name.c_str(), machine, within, parameters));
    }
  CHECK(!unsupported_placement(machine, {false, 0, 2}).empty());
  CHECK(!unsupported_placement(machine, {false, 1, 1}).empty());
  CHECK(!unsupported_placement(machine, {true, 0, 2}).empty());
  CHECK(unsupported_placement(machine, between).empty() && unsupported_placement(machine, within).empty());
  CHECK_THROWS(find_scenario("pingpang"));
  CHECK_THROWS(run("pingpong", machine, within, {{"size_bytes", 8}, {"state", "shiny"}}));
  CHECK_THROWS(run("pingpong", machine, within, {{"state", "invalid"}}));
}

}  // namespace

int main() {
  reading_takes_what_memory_takes();
  eager_messages_miss_what_was_not_cached();
  eager_calls_leave_messages_cached();
  rendezvous_takes_the_message_out_of_the_receivers_cache();
  sides_of_a_node_are_counted_separately();
  pages_fault_once_and_miss_small_tlbs();
  strides_miss_every_line();
  load_is_felt_where_links_are_shared();
  orders_of_a_stencil_miss_alike_in_the_cache();
  loads_that_bypass_caches_overlap();
  splits_differ_by_their_faces();
  collectives_of_two_are_messages();
  scenarios_repeat_and_refuse();
  scenarios_have_axes();
  std::printf("%d checks failed\n", failed_checks);
  return failed_checks != 0;
}

// Are routes valid, and do messages take the times of LogGP?
#include <algorithm>
#include <random>
#include <stdexcept>
#include <string>

#include "check.hpp"
#include "machine/machine.hpp"
#include "sim/network/network.hpp"

namespace {

using namespace nearfield::sim;
using nearfield::Machine;

struct Case {
  std::string topology;
  std::vector<int> shape;
  int per_router;
  int nodes;
};

const std::vector<Case> cases{{"full", {}, 1, 17},
                              {"full", {}, 3, 10},
                              {"torus", {5, 4, 3}, 1, 60},
                              {"torus", {8}, 2, 15},
                              {"torus", {2, 2}, 1, 4},
                              {"torus", {1, 7, 2}, 1, 14},
                              {"hypercube", {}, 2, 24},
                              {"hypercube", {3}, 2, 16},
                              {"hypercube", {}, 4, 4},
                              {"fat-tree", {4, 3, 2}, 1, 24},
                              {"fat-tree", {6}, 1, 6},
                              {"dragonfly", {4, 2, 9}, 1, 72},
                              {"dragonfly", {3, 1, 2}, 1, 6},
                              {"dragonfly", {1, 2, 5}, 1, 10}};

Machine machine_with(const Case& c) {
  Machine machine;
  machine.name = "made-up";
  machine.nic.emplace();
  machine.nic->gb_per_s = 2.3;
  machine.network.emplace();
  machine.network->topology = c.topology;
  machine.network->shape = c.shape;
  machine.network->nodes_per_router = c.per_router;
  machine.network->latency_ns = 1234.567;
  machine.network->hop_ns = 12.3;
  machine.network->gap_ns = 345.6;
  machine.network->link_gb_per_s = 1.7;
  return machine;
}

// Is every route a chain of links from the sender's router to the receiver's, of length hops() in both directions?
void routes_are_chains() {
  for (const auto& c : cases) {
    const Machine machine = machine_with(c);
    const auto topology = make_topology(*machine.network, c.nodes);
    std::vector<int> route;
    for (int a = 0; a < c.nodes; ++a)
      for (int b = 0; b < c.nodes; ++b) {
        topology->route(a, b, route);
        int at = topology->router_of(a);
        bool chain = true;
        for (const int number : route) {
          chain = chain && number >= 0 && number < topology->num_links() && topology->link(number).from == at;
          at = topology->link(number).to;
        }
        CHECK(chain && at == topology->router_of(b));
        CHECK(static_cast<int>(route.size()) == topology->num_hops(a, b));
        CHECK(topology->num_hops(a, b) == topology->num_hops(b, a));
        CHECK(route.empty() == (topology->router_of(a) == topology->router_of(b)));
        CHECK(std::adjacent_find(route.begin(), route.end()) == route.end());
      }
  }
}

// Are routes minimal? (By Floyd and Warshall's distances over the links. A dragonfly's minimal route crosses between
// groups once, even if two crossings without hops inside groups are shorter.)
void routes_are_minimal() {
  for (const auto& c : cases) {
    if (c.topology == "dragonfly") continue;
    const auto topology = make_topology(*machine_with(c).network, c.nodes);
    int routers = 0;
    for (int a = 0; a < c.nodes; ++a) routers = std::max(routers, topology->router_of(a) + 1);
    for (int l = 0; l < topology->num_links(); ++l)
      routers = std::max({routers, topology->link(l).from + 1, topology->link(l).to + 1});
    const auto n = static_cast<std::size_t>(routers);
    std::vector<int> distance(n * n, 1000);
    for (std::size_t r = 0; r < n; ++r) distance[r * n + r] = 0;
    for (int l = 0; l < topology->num_links(); ++l) {
      const Link link = topology->link(l);
      if (link.from != link.to)
        distance[static_cast<std::size_t>(link.from) * n + static_cast<std::size_t>(link.to)] = 1;
    }
    for (std::size_t k = 0; k < n; ++k)
      for (std::size_t i = 0; i < n; ++i)
        for (std::size_t j = 0; j < n; ++j)
          distance[i * n + j] = std::min(distance[i * n + j], distance[i * n + k] + distance[k * n + j]);
    for (int a = 0; a < c.nodes; ++a)
      for (int b = 0; b < c.nodes; ++b)
        CHECK(topology->num_hops(a, b) == distance[static_cast<std::size_t>(topology->router_of(a)) * n +
                                                   static_cast<std::size_t>(topology->router_of(b))]);
  }
}

std::string refusal(const Case& c) {
  try {
    make_topology(*machine_with(c).network, c.nodes);
  } catch (const std::invalid_argument& problem) {
    return problem.what();
  }
  return "";
}

bool names(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Are too many nodes refused, with a sufficient shape, and are invalid shapes refused?
void too_many_nodes_are_refused() {
  CHECK(names(refusal({"torus", {4, 4}, 1, 17}), "16 nodes, or shape [5, 4]"));
  CHECK(names(refusal({"torus", {4, 8}, 1, 33}), "shape [5, 8]") || names(refusal({"torus", {4, 8}, 1, 33}), "[4, 9]"));
  CHECK(names(refusal({"hypercube", {3}, 2, 17}), "16 nodes, or shape [4]"));
  CHECK(names(refusal({"fat-tree", {4, 4}, 1, 20}), "16 nodes, or shape [5, 4]"));
  CHECK(names(refusal({"dragonfly", {2, 2, 3}, 1, 13}), "12 nodes"));
  CHECK(names(refusal({"torrus", {4, 4}, 1, 3}), "'torus'"));
  CHECK(names(refusal({"torus", {}, 1, 3}), "routers per dimension"));
  CHECK(names(refusal({"torus", {4, -1}, 1, 3}), "routers per dimension"));
  CHECK(names(refusal({"torus", {1 << 30, 1 << 30}, 1, 3}), "million"));
  CHECK(names(refusal({"hypercube", {31}, 1, 3}), "dimensions"));
  CHECK(names(refusal({"dragonfly", {2, 2}, 1, 3}), "routers per group"));
  CHECK(names(refusal({"full", {}, 0, 3}), "nodes_per_router"));
  CHECK(names(refusal({"full", {}, 1, 0}), "nodes"));
}

MessageTimes transfer(Network& network, int from, int to, std::uint64_t bytes, const ConfigClock& start,
                      const ConfigClock& read_time) {
  MessageTimes message_times = network.inject_message(from, bytes, start, read_time);
  network.route_message(from, to, bytes, message_times);
  return message_times;
}
MessageTimes transfer(Network& network, int from, int to, std::uint64_t bytes, const ConfigClock& start) {
  return transfer(network, from, to, bytes, start, ConfigClock(start.num_variants()));
}

// Without contention, does a message take exactly latency + hops + bytes / bandwidth, in every configuration?
void alone_it_is_loggp() {
  std::mt19937 random(1);
  for (const auto& c : cases) {
    const Machine machine = machine_with(c);
    Network network(machine, c.nodes, 2);
    Ps time = 0;
    for (int i = 0; i < 300; ++i) {
      const int from = static_cast<int>(random() % static_cast<unsigned>(c.nodes));
      const int to = static_cast<int>(random() % static_cast<unsigned>(c.nodes));
      if (from == to) continue;
      const std::uint64_t bytes = random() % (1u << (random() % 24));
      ConfigClock start(2, time);
      start[1] += 17.0;
      start[0][3] += 5.0;
      const MessageTimes message_times = transfer(network, from, to, bytes, start);
      const int hops = network.topology().num_hops(from, to);
      const Ps first = 1234567.0 + std::max(0, hops - 1) * 12300.0;
      const Ps slowest =
          std::max(Network::serialization_time(bytes, 2.3), hops > 0 ? Network::serialization_time(bytes, 1.7) : 0.0);
      CHECK(message_times.first_byte_arrival == start + first);
      CHECK(message_times.last_byte_arrival == start + first + slowest);
      time = message_times.last_byte_arrival.first() + 2e9;  // no message is in flight, the gap is over
    }
  }
}

// Do messages of one NIC follow each other at the larger of the gap and their serialisation time?
void one_nic_sends_at_the_gap() {
  const Machine machine = machine_with({"full", {}, 1, 3});
  Network network(machine, 3, 1);
  Ps start = 0, free = 0;
  for (const std::uint64_t bytes : {0u, 0u, 8u, 100000u, 1u, 5000u, 0u}) {
    const MessageTimes message_times =
        transfer(network, 0, 1 + static_cast<int>(bytes % 2), bytes, ConfigClock(1, start));
    start = std::max(start, free);
    CHECK(message_times.departure.first() == start + Network::serialization_time(bytes, 2.3));
    free = start + std::max(345600.0, Network::serialization_time(bytes, 2.3));
    start += 1000;
  }
}

// Does a link carry one message at a time, in the order of calls, and does a message that waits block no other link?
void links_are_shared() {
  Machine machine = machine_with({"torus", {8}, 1, 8});
  machine.nic->gb_per_s = 0;
  machine.network->gap_ns = 0;
  Network network(machine, 8, 1);
  const Ps serial = Network::serialization_time(17000, 1.7), latency = 1234567, hop = 12300;
  const MessageTimes a = transfer(network, 0, 2, 17000, ConfigClock(1, 0));  // links 0-1 and 1-2
  const MessageTimes b = transfer(network, 1, 2, 17000, ConfigClock(1, 0));  // link 1-2
  const MessageTimes c = transfer(network, 3, 4, 17000, ConfigClock(1, 0));  // another link
  CHECK(a.last_byte_arrival.first() == latency + hop + serial);
  CHECK(b.first_byte_arrival.first() == latency + hop + serial);
  CHECK(b.last_byte_arrival.first() == latency + hop + 2 * serial);
  CHECK(c.last_byte_arrival.first() == latency + serial);
}

// Does memory that is slower than the network delay the message's last byte, and only that?
void slow_reading_holds_back() {
  const Machine machine = machine_with({"full", {}, 1, 2});
  Network network(machine, 2, 1);
  const MessageTimes message_times = transfer(network, 0, 1, 1700, ConfigClock(1, 0), ConfigClock(1, 9e6));
  CHECK(message_times.first_byte_arrival.first() == 1234567.0);
  CHECK(message_times.last_byte_arrival.first() == 1234567.0 + 9e6);
  CHECK(message_times.departure.first() == 9e6);
}

// Under any load: does no message arrive before LogGP allows, overtake another one on the same route, or end before its
// first byte arrives? Are results reproducible?
void laws_under_load() {
  for (const auto& c : cases) {
    const Machine machine = machine_with(c);
    Network one(machine, c.nodes, 3), two(machine, c.nodes, 3);
    std::mt19937 random(7);
    std::vector<MessageTimes> before(static_cast<std::size_t>(c.nodes * c.nodes));
    Ps time = 0;
    for (int i = 0; i < 3000; ++i) {
      const int from = static_cast<int>(random() % static_cast<unsigned>(c.nodes));
      const int to = static_cast<int>(random() % static_cast<unsigned>(c.nodes));
      if (from == to) continue;
      const std::uint64_t bytes = random() % 10000;
      time += random() % 100000;
      const ConfigClock start(3, time);
      const MessageTimes message_times = transfer(one, from, to, bytes, start);
      const MessageTimes again = transfer(two, from, to, bytes, start);
      CHECK(message_times.first_byte_arrival == again.first_byte_arrival &&
            message_times.last_byte_arrival == again.last_byte_arrival && message_times.departure == again.departure);
      const Ps min_time = time + 1234567.0 + std::max(0, one.topology().num_hops(from, to) - 1) * 12300.0;
      CHECK(message_times.first_byte_arrival.first() >= min_time && min_time >= time + one.min_latency());
      CHECK(message_times.last_byte_arrival.first() >=
            message_times.first_byte_arrival.first() + Network::serialization_time(bytes, 2.3));
      MessageTimes& last = before[static_cast<std::size_t>(from * c.nodes + to)];
      if (last.last_byte_arrival.num_variants() > 0)
        CHECK(message_times.first_byte_arrival.first() >= last.last_byte_arrival.first());
      last = message_times;
    }
  }
}

}  // namespace

int main() {
  routes_are_chains();
  routes_are_minimal();
  too_many_nodes_are_refused();
  alone_it_is_loggp();
  one_nic_sends_at_the_gap();
  links_are_shared();
  slow_reading_holds_back();
  laws_under_load();
  return failed_checks == 0 ? 0 : 1;
}

// Do accesses take the time of the tier in which their page lies? Times are computed by hand for a small machine.
#include <cmath>
#include <cstdio>
#include <set>
#include <vector>

#include "check.hpp"
#include "sim/memory/memory.hpp"
#include "test_machine.hpp"

namespace {

using namespace nearfield;
using namespace nearfield::sim;

constexpr Address line = 128, page = 4096, pages = 8000;
constexpr double dram_ns = 100, far_ns = 250;

Machine machine_with(std::vector<MemoryTier> tiers) {
  Machine machine = test_machine();
  machine.dram.tiers = std::move(tiers);
  return machine;
}

double ns(const NodeMemory& memory) { return memory.now(0)[0] / 1e3; }

// Returns the latency of a load from each page.
std::vector<double> latencies(const Machine& machine) {
  NodeMemory memory(machine, {1, 1, 1, 1});
  std::vector<double> found;
  for (Address number = 0; number < pages; ++number) {
    const double begin = ns(memory);
    memory.access(0, Access::chase, number * page, 8);
    found.push_back(ns(memory) - begin);
  }
  return found;
}

std::set<std::size_t> pages_of(const Machine& machine, double latency_ns) {
  std::set<std::size_t> found;
  const std::vector<double> all = latencies(machine);
  for (std::size_t number = 0; number < all.size(); ++number)
    if (std::abs(all[number] - latency_ns) < 1) found.insert(number);
  return found;
}

// Does each page lie in one tier, and does a tier have its share of the pages, also of those at any power of two?
void pages_have_tiers() {
  CHECK(pages_of(machine_with({}), dram_ns).size() == pages);
  for (const double share : {0.0, 0.1, 0.5, 1.0}) {
    const Machine machine = machine_with({{far_ns, 5, share}});
    const std::set<std::size_t> far = pages_of(machine, far_ns);
    CHECK(far.size() + pages_of(machine, dram_ns).size() == pages);
    CHECK(std::abs(static_cast<double>(far.size()) / pages - share) < 0.01);
    for (const std::size_t stride : {2U, 16U, 64U}) {
      double count = 0;
      for (const std::size_t number : far) count += number % stride == 0;
      CHECK(std::abs(count * static_cast<double>(stride) / pages - share) < 0.06);
    }
  }
  const Machine two = machine_with({{far_ns, 5, 0.3}, {400, 2, 0.2}});
  CHECK(std::abs(static_cast<double>(pages_of(two, far_ns).size()) / pages - 0.3) < 0.01);
  CHECK(std::abs(static_cast<double>(pages_of(two, 400).size()) / pages - 0.2) < 0.01);
}

// Does a page that is in a tier stay there if the share grows?
void larger_shares_contain_smaller_ones() {
  std::set<std::size_t> before;
  for (const double share : {0.1, 0.25, 0.3, 0.8}) {
    const std::set<std::size_t> now = pages_of(machine_with({{far_ns, 5, share}}), far_ns);
    for (const std::size_t number : before) CHECK(now.contains(number));
    before = now;
  }
}

// Reads memory with many misses in flight. Returns bytes per ns.
double rate(const Machine& machine) {
  NodeMemory memory(machine, {1, 1, 1, 1});
  for (Address address = 0; address < pages * page; address += line) memory.access(0, Access::load, address, 8);
  memory.drain(0);
  return static_cast<double>(pages * page) / ns(memory);
}

// Do DRAM and tier transfer at the same time, each at its rate?
void tiers_have_buses_of_their_own() {
  Machine machine = machine_with({{dram_ns, 10, 0}});
  machine.core.outstanding_misses = 64;
  CHECK(std::abs(rate(machine) - 10) < 0.2);
  machine.dram.tiers[0].share = 0.5;
  CHECK(rate(machine) > 16);
  machine.dram.tiers[0] = {dram_ns, 2, 1};
  CHECK(std::abs(rate(machine) - 2) < 0.1);
}

// Do a slower memory and a device's read have the latency of the tier, too?
void slowdown_and_devices_know_tiers() {
  const Machine machine = machine_with({{far_ns, 5, 1}});
  NodeMemory memory(machine, {1, 2, 2, 2});
  memory.access(0, Access::chase, 0, 8);
  CHECK(memory.now(0)[0] == far_ns * 1e3 && memory.now(0)[1] == (40 + (far_ns - 40) * 2) * 1e3);
  const double bytes_ns = static_cast<double>(line) / 5;
  const ConfigClock done = memory.dma_read(page, line, ConfigClock(1));
  CHECK(std::abs(done.first() / 1e3 - (far_ns - 40 + bytes_ns)) < 0.01 + bytes_ns);
  NodeMemory near(test_machine(), {1, 2, 2, 2});
  CHECK(done.first() > near.dma_read(page, line, ConfigClock(1)).first());
}

}  // namespace

int main() {
  pages_have_tiers();
  larger_shares_contain_smaller_ones();
  tiers_have_buses_of_their_own();
  slowdown_and_devices_know_tiers();
  return failed_checks == 0 ? 0 : 1;
}

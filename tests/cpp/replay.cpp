// Feeds a trace of valgrind's lackey to a simulated memory with cachegrind's caches, and prints the misses under
// cachegrind's names. Core 0 makes the data accesses, core 1 fetches the instructions; each has a cache of its own (D1
// and I1, of one geometry), the last one (LL) is shared and not inclusive.
//
// Cachegrind does not model the following, which is kept out of the comparison (test_cachegrind.py):
//  - Modified lines. Here their eviction from D1 may put a line into LL. So either `--stores-as-loads`, or an LL that
//    holds everything: then stores are stores, and all counts must be equal still. D1's own misses do not depend on
//    LL.
//  - A location that an instruction reads and writes (M) counts as read only; the write must hit.
//  - An access to two lines is one miss at most, but refers to both in LL. Such traces are rejected; the traced
//    program has none.
//
// replay SIZE,WAYS,LINE-of-I1-and-D1 SIZE,WAYS,LINE-of-LL [--stores-as-loads] < trace
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "machine/machine.hpp"
#include "sim/memory/counts.hpp"
#include "sim/memory/memory.hpp"

using namespace nearfield;
using namespace nearfield::sim;

namespace {

Cache cache_of(const char* text, int shared_by) {
  Cache cache;
  unsigned long size = 0;
  if (std::sscanf(text, "%lu,%d,%d", &size, &cache.ways, &cache.line_bytes) != 3) {
    std::fprintf(stderr, "error: '%s' is not SIZE,WAYS,LINE\n", text);
    std::exit(2);
  }
  cache.size_bytes = size;
  cache.shared_by = shared_by;
  cache.latency_cycles = 1;
  return cache;
}

Machine machine_of(const char* l1, const char* last) {
  Machine machine;
  machine.name = "cachegrind";
  machine.cores = 2;
  machine.core.clock_ghz = 1;
  machine.dram.latency_ns = 100;
  machine.dram.gb_per_s = 10;
  machine.caches = {cache_of(l1, 1), cache_of(last, 2)};
  return machine;
}

struct Misses {
  Count references = 0, l1 = 0, last = 0;
};

class Replay {
 public:
  Replay(const Machine& machine, bool stores_as_loads)
      : memory_(machine),
        line_bytes_(static_cast<Address>(machine.caches[0].line_bytes)),
        stores_as_loads_(stores_as_loads) {}

  void line(const char* text) {
    char kind = 0;
    unsigned long address = 0;
    unsigned bytes = 0;
    if (std::sscanf(text, " %c %lx,%u", &kind, &address, &bytes) != 3 || !std::strchr("ILSM", kind)) return;
    if (address / line_bytes_ != (address + bytes - 1) / line_bytes_) {
      std::fprintf(stderr, "error: an access to two lines: %s", text);
      std::exit(3);
    }
    if (kind == 'I') access(1, Access::load, address, bytes, fetches_);
    if (kind == 'L' || kind == 'M') access(0, Access::load, address, bytes, reads_);
    if (kind == 'S') access(0, store(), address, bytes, writes_);
    if (kind == 'M') {
      Misses after_read;
      access(0, store(), address, bytes, after_read);
      if (after_read.l1 != 0) std::exit(4);
    }
  }

  void print() const {
    const auto print_one = [](const char* names, const Misses& m) { std::printf(names, m.references, m.l1, m.last); };
    print_one("Ir %lu\nI1mr %lu\nILmr %lu\n", fetches_);
    print_one("Dr %lu\nD1mr %lu\nDLmr %lu\n", reads_);
    print_one("Dw %lu\nD1mw %lu\nDLmw %lu\n", writes_);
  }

 private:
  Access store() const { return stores_as_loads_ ? Access::load : Access::store; }

  void access(int core, Access kind, Address address, unsigned bytes, Misses& counted) {
    memory_.access(core, kind, address, bytes);
    const Counts now = memory_.counts();
    ++counted.references;
    counted.l1 += now.levels[0].misses - before_.levels[0].misses;
    counted.last += now.levels[1].misses - before_.levels[1].misses;
    before_ = now;
  }

  NodeMemory memory_;
  Counts before_ = memory_.counts();
  Address line_bytes_;
  bool stores_as_loads_;
  Misses fetches_, reads_, writes_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: replay SIZE,WAYS,LINE SIZE,WAYS,LINE [--stores-as-loads] < trace\n");
    return 2;
  }
  const bool stores_as_loads = argc > 3 && std::strcmp(argv[3], "--stores-as-loads") == 0;
  Replay replay(machine_of(argv[1], argv[2]), stores_as_loads);
  char text[256];
  while (std::fgets(text, sizeof text, stdin)) replay.line(text);
  replay.print();
  return 0;
}

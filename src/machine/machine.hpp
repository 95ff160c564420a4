// A machine as the simulator takes it: plain numbers of one node and of the network. People write machines/NAME.toml,
// with a source at every number; python/nearfield/machine/ checks that and fills these structs. Units are in
// the names; a latency is load-to-use: what a chain of dependent loads sees from the core, not what one part adds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace nearfield {

enum class Inclusion {
  inclusive,  // holds every line that the caches before it hold; evicting a line here removes it there
  exclusive,  // a victim cache: holds what the caches before it evicted; a hit moves the line back to them
  neither,    // filled on the way in, and nothing happens elsewhere when it evicts
};
enum class WritePolicy { back, through };  // through: stores go on to the next level, and a miss does not fill this one
enum class Coherence { mesi, moesi };
// The state of a modified line in the cache after a NIC has read it.
enum class DmaRead { keep, clean, invalidate };
// How a core learns of events: it reads a queue that the NIC writes them into, or asks the NIC by commands.
enum class Polling { queue, command };

struct Cache {
  std::uint64_t size_bytes = 0;
  int ways = 0;
  int line_bytes = 0;  // what one tag stands for
  int sub_blocks = 1;  // parts of a line that are valid and dirty on their own
  int shared_by = 1;   // cores per cache, of consecutive numbers
  Inclusion inclusion = Inclusion::neither;
  WritePolicy write = WritePolicy::back;
  std::string replacement = "lru";
  double latency_cycles = 0;
  double bytes_per_cycle = 0;  // at most, into the caches before it; 0: no limit
};

struct Core {
  double clock_ghz = 0;
  double cycles_per_access = 1;    // of one load or store that hits the nearest cache, others being under way
  int outstanding_misses = 1;      // of one core, at a time
  int outstanding_bypass = 0;      // the same of accesses past the caches; 0: as outstanding_misses
  int window = 0;                  // instructions issued behind a load without its data; 0: no limit
  double flops_per_cycle = 0;      // floating-point instructions that do not wait for each other; 0: they take no time
  double flop_latency_cycles = 0;  // from one to the next that needs its result; 0: they take no time
};

struct Dram {
  double latency_ns = 0;  // of a load that no cache has, nothing else under way
  double gb_per_s = 0;    // 10^9 bytes; of one memory, cores and NIC together
  int shared_by = 0;      // cores per memory; 0: one for all
  double remote_ns = 0;   // extra latency from cores of another memory
  int banks = 1;
  int bank_interleave_bytes = 64;
  double bank_busy_ns = 0;     // between two accesses to one bank
  double gb_per_s_bypass = 0;  // of loads and stores past the caches, per core; 0: as gb_per_s
};

enum class SocketTraffic { remote, everything };

// What connects a socket to the rest of the node.
struct Socket {
  double gb_per_s = 0;  // into one socket; of a bus, both ways together; 0: no limit
  int shared_by = 0;    // cores of a socket; 0: all
  SocketTraffic carries = SocketTraffic::remote;
};

// What connects the hubs of a node. A hub joins the cores of one memory (Dram::shared_by), that memory with its
// directory of who has its lines, and one link, which leads to a router.
struct Links {
  std::string topology = "hypercube";  // of the routers, as in Network
  std::vector<int> shape;              // as in Network
  int hubs_per_router = 1;
  double hop_ns = 0;    // extra latency of memory for each router beyond the first, which Dram::remote_ns contains
  double gb_per_s = 0;  // of a link, each way; 0: no limit
};

struct Tlb {
  int entries = 0;
  int ways = 0;
  double miss_cycles = 0;  // extra time if a miss here hits the next one or walks the page tables
};

// Whether a page lies in memory where its address says, or anywhere.
enum class PagePlacement { identity, random };

struct Pages {
  std::uint64_t page_bytes = 4096;
  PagePlacement placement = PagePlacement::identity;
  double fault_ns = 0;    // the first touch of a page
  std::vector<Tlb> tlbs;  // nearest first
};

struct Prefetcher {
  int streams = 0;         // followed at a time, per core; 0: there is none
  int distance_lines = 0;  // how far ahead of the access
  int level = 1;           // into which cache, counted from 0
  int outstanding = 0;     // requests of its own, at a time; 0: they are among Core::outstanding_misses
};

// The costs of getting a line from another core's cache.
struct Transfers {
  double shared_cycles = 0;  // from a cache below the same last-level cache
  double remote_cycles = 0;  // from below another last-level cache of the node
};

struct Nic {
  double gb_per_s = 0;    // between memory and network, each way
  double dma_ns = 0;      // from the decision to write until the line is there
  double post_ns = 0;     // of the core: to tell the NIC of a message (a write to a register of it)
  int event_bytes = 128;  // of an entry of the event queue
  int event_entries = 1024;
  DmaRead read_of_modified = DmaRead::keep;
  Polling polling = Polling::queue;
  std::string policy = "memory";  // where this machine puts incoming bytes unless a run says otherwise
  int policy_ways = 0;            // of a set of the cache it puts them into, that they may take; 0: any
};

struct Network {
  std::string topology = "full";  // full, torus, hypercube, fat-tree, dragonfly
  std::vector<int> shape;         // torus: routers per dimension; fat-tree: children per level; dragonfly: routers per
                                  // group, nodes per router, groups
  int nodes_per_router = 1;
  double latency_ns = 0;     // of the wire and the routers' fixed part, from NIC to NIC
  double hop_ns = 0;         // of every hop beyond the first
  double gap_ns = 0;         // between two messages of a NIC
  double link_gb_per_s = 0;  // each way
};

// The protocols of this machine's MPI, and the sizes at which it changes them.
struct Messaging {
  std::string network = "eager-rendezvous";  // protocols by name: src/sim/protocols/
  std::string node = "copy-in-copy-out";
  std::uint64_t eager_bytes = 0;       // between nodes
  std::uint64_t node_eager_bytes = 0;  // inside a node
  std::uint64_t ring_bytes = 32768;    // of the ring that copy-in-copy-out goes through
  double send_ns = 0;                  // of the core, per call, apart from memory
  double receive_ns = 0;
  double match_ns = 0;        // of an arrived header
  double register_ns = 0;     // of memory for a zero-copy transfer, per page
  double system_call_ns = 0;  // of a kernel's single copy
};

struct Machine {
  std::string name;
  int cores = 1;  // of one node
  Core core;
  std::vector<Cache> caches;  // nearest first; data and unified ones
  Coherence coherence = Coherence::mesi;
  Transfers transfers;
  Dram dram;
  Socket socket;
  std::optional<Links> links;  // nothing: lines of other memories and their caches meet no others on their way
  Pages pages;
  std::optional<Prefetcher> prefetcher;
  std::optional<Nic> nic;
  std::optional<Network> network;
  Messaging messaging;
  int max_nodes = 1;
};

}  // namespace nearfield

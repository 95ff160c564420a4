// The description of a machine for the simulator: the parameters of one node and of the network. A machine file
// (machines/NAME.toml) gives the source of every number; python/nearfield/machine/ checks the file and fills these
// structs. Names end in their unit. Latencies are load-to-use: the time per load in a chain of dependent loads, not the
// contribution of one component.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace nearfield {

enum class Inclusion {
  inclusive,  // contains all lines of the inner levels; an eviction invalidates the line there
  exclusive,  // a victim cache: filled by evictions of the inner levels; a hit moves the line back to the inner level
  neither,    // filled by misses of the inner levels; evictions do not affect other levels
};
// With `through`, stores also go to the next level, and a store miss does not fill the cache.
enum class WritePolicy { back, through };
enum class Coherence { mesi, moesi };
// The effect of a NIC's read on a modified line in a cache: the line stays modified (keep), becomes clean, or is
// invalidated.
enum class DmaRead { keep, clean, invalidate };
// How a core detects events of the NIC: it polls a queue in memory to which the NIC writes events (queue), or it
// queries the NIC by commands (command).
enum class Polling { queue, command };

struct Cache {
  std::uint64_t size_bytes = 0;
  int ways = 0;
  int line_bytes = 0;  // cache line size: the granularity of the tags
  int sub_blocks = 1;  // parts of a line with their own valid and dirty bits
  int shared_by = 1;   // number of consecutive cores that share one cache
  Inclusion inclusion = Inclusion::neither;
  WritePolicy write = WritePolicy::back;
  std::string replacement = "lru";
  double latency_cycles = 0;
  double bytes_per_cycle = 0;  // bandwidth limit into the inner level; 0: no limit
};

struct Core {
  double clock_ghz = 0;
  double cycles_per_access = 1;     // throughput of loads and stores that hit L1
  int outstanding_misses = 1;       // misses that one core has in flight at a time
  int outstanding_bypass = 0;       // non-temporal accesses that one core has in flight; 0: outstanding_misses
  int window = 0;                   // instructions that a core can issue beyond an unfinished load; 0: no limit
  double flops_per_cycle = 0;       // throughput of independent floating-point instructions; 0: they take no time
  double flop_latency_cycles = 0;   // of each instruction in a chain of floating-point instructions; 0: no time
  double mispredict_cycles = 0;     // from a mispredicted branch to the first instruction after it; 0: no time
  double copy_bytes_per_cycle = 0;  // bandwidth of copies that hit L1; 0: copies load and store words of 8 bytes
  double clock_reading_ns = 0;      // cost of one clock reading, which every time measured by a scenario includes
};

// Further memory of a node, such as HBM or CXL memory. Pages are interleaved: a page is in this tier with probability
// `share`, as a pseudorandom function of the page's address only.
struct MemoryTier {
  double latency_ns = 0;  // as Dram::latency_ns
  double gb_per_s = 0;    // as Dram::gb_per_s
  double share = 0;       // share of the pages, 0 to 1
};

struct Dram {
  double latency_ns = 0;  // of a load that misses all caches, when the memory is idle
  double gb_per_s = 0;    // of one memory (NUMA node), shared by cores and NIC; GB: 10^9 bytes
  int shared_by = 0;      // cores per memory; 0: one memory for all cores
  double remote_ns = 0;   // extra latency of an access to another memory than the core's own
  int banks = 1;
  int bank_interleave_bytes = 64;
  double bank_busy_ns = 0;        // minimum time between two accesses to the same bank
  double gb_per_s_bypass = 0;     // of non-temporal accesses, per core; 0: gb_per_s
  std::vector<MemoryTier> tiers;  // each memory has all these tiers; the remaining pages are in the DRAM itself
};

enum class SocketTraffic { remote, everything };

// The connection of a socket to the rest of the node.
struct Socket {
  double gb_per_s = 0;  // bandwidth into one socket; for a bus, the sum of both directions; 0: no limit
  int shared_by = 0;    // cores of a socket; 0: all
  SocketTraffic carries = SocketTraffic::remote;
};

// The connections between the hubs of a node. A hub joins the cores of one memory (Dram::shared_by), that memory with
// its directory of sharers, and one link to a router.
struct Links {
  std::string topology = "hypercube";  // topology of the routers, as Network::topology
  std::vector<int> shape;              // of the routers, as Network::shape
  int hubs_per_router = 1;
  double hop_ns = 0;    // extra memory latency per router beyond the first, which Dram::remote_ns includes
  double gb_per_s = 0;  // of a link, per direction; 0: no limit
};

struct Tlb {
  int entries = 0;
  int ways = 0;
  double miss_cycles = 0;  // extra time of a miss at this level: a lookup in the next level, or a page walk
};

// How the physical address of a page is determined: it equals the virtual address, or it is random.
enum class PagePlacement { identity, random };

struct Pages {
  std::uint64_t page_bytes = 4096;
  PagePlacement placement = PagePlacement::identity;
  double fault_ns = 0;       // time of the page fault at the first touch of a page
  double huge_fault_ns = 0;  // the same for a huge page of 2 MiB; 0: fault_ns
  int walkers = 0;           // page walks that a core can have in flight while it continues; 0: it stalls for each
  std::vector<Tlb> tlbs;     // L1 first
};

// The lines that a prefetcher fetches when it detects a stream: one line at the prefetch distance, or all lines up to
// that distance. With `all`, the first use of a prefetched line advances the stream, as a miss does.
enum class PrefetchExtent { one, all };

struct Prefetcher {
  int streams = 0;         // streams tracked per core; 0: there is no prefetcher
  int distance_lines = 0;  // prefetch distance ahead of the access
  int level = 1;           // cache level that is prefetched into, from 0 (L1)
  int outstanding = 0;     // maximum number of prefetches in flight; 0: they share Core::outstanding_misses
  PrefetchExtent start = PrefetchExtent::one;
};

// The costs of getting a line from another core's cache.
struct Transfers {
  double shared_cycles = 0;        // from a private cache under the same last-level cache
  double remote_cycles = 0;        // from a cache under another last-level cache of the node
  double upgrade_cycles = 0;       // extra core time of a store to a line that other cores share
  double upgrade_miss_cycles = 0;  // the same if the store misses L1; 0: upgrade_cycles
  int outstanding = 0;             // transfers from other caches that a core has in flight; 0: as many as other misses
};

struct Nic {
  double gb_per_s = 0;    // between memory and network, per direction
  double dma_ns = 0;      // latency of a DMA write, from its start in the NIC until the line has arrived
  double post_ns = 0;     // core time to notify the NIC of a message (doorbell: a write to a register)
  int event_bytes = 128;  // size of an event queue entry
  int event_entries = 1024;
  DmaRead read_of_modified = DmaRead::keep;
  Polling polling = Polling::queue;
  std::string policy = "memory";  // default placement policy for received payload
  int policy_ways = 0;            // ways per cache set into which the policy may inject lines; 0: all
};

struct Network {
  std::string topology = "full";  // full, torus, hypercube, fat-tree, dragonfly
  std::vector<int> shape;         // torus: routers per dimension; fat-tree: children per level; dragonfly: routers per
                                  // group, nodes per router, groups
  int nodes_per_router = 1;
  double latency_ns = 0;     // from NIC to NIC: wires and the constant part of the routers
  double hop_ns = 0;         // per hop beyond the first
  double gap_ns = 0;         // minimum time between two messages of a NIC
  double link_gb_per_s = 0;  // per direction
};

// How a packet inside a node is announced. in_line: each pair of ranks has cache lines that contain the packet headers.
// separate: each rank has one linked list of the packets from all other ranks: one cache line contains the address of
// the first packet, whose header, in another cache line, contains the address of the next packet. Messages of at most
// `unattended_bytes` bypass the list.
enum class PacketHeader { in_line, separate };

// The MPI whose algorithms the collectives follow (src/sim/mpi/collectives/).
enum class CollectiveAlgorithms { mpich, openmpi };  // MPICH: those of 1.2.7

// The protocols of this machine's MPI, the message sizes at which the MPI switches protocols, and the costs of MPI
// calls.
struct Messaging {
  std::string network = "eager-rendezvous";  // protocols by name: src/sim/mpi/protocols/
  std::string node = "copy-in-copy-out";
  std::string pieces;  // for long messages inside a node that have min_pieces contiguous pieces or more; empty: `node`
  std::uint64_t min_pieces = 2;
  std::uint64_t eager_bytes = 0;       // longest eager message between nodes
  std::uint64_t node_eager_bytes = 0;  // longest eager message inside a node
  std::uint64_t ring_bytes = 32768;    // size of the ring buffer of copy-in-copy-out
  double send_ns = 0;                  // core time per call, excluding memory
  double receive_ns = 0;
  double match_ns = 0;             // core time per arrived message header
  double register_ns = 0;          // core time to register one page for a zero-copy transfer
  double system_call_ns = 0;       // core time of the system call of a single-copy transfer
  double copy_page_ns = 0;         // additional core time of a single-copy transfer per page
  std::uint64_t inline_bytes = 0;  // longest message inside a node that is sent in the cache line that announces it
  PacketHeader headers = PacketHeader::in_line;  // inside a node
  double piece_ns = 0;                           // core time per contiguous piece of a datatype that is copied
  // The longest eager message inside a node whose send completes before the receiver has received it.
  std::uint64_t unattended_bytes = std::numeric_limits<std::uint64_t>::max();
  CollectiveAlgorithms collectives = CollectiveAlgorithms::mpich;
};

struct Machine {
  std::string name;
  int cores = 1;  // of one node
  Core core;
  std::vector<Cache> caches;  // data and unified caches, L1 first
  Coherence coherence = Coherence::mesi;
  Transfers transfers;
  Dram dram;
  Socket socket;
  std::optional<Links> links;  // nullopt: no contention for lines in transit between memories
  Pages pages;
  std::optional<Prefetcher> prefetcher;
  std::optional<Nic> nic;
  std::optional<Network> network;
  Messaging messaging;
  int max_nodes = 1;
};

}  // namespace nearfield

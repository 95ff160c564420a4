// The description of a machine for the simulator: plain numbers of one node and of the network. People write
// machines/NAME.toml, with a source for every number; python/nearfield/machine/ checks the file and fills these
// structs. Units are in the names. Latencies are load-to-use: what a core sees in a chain of dependent loads, not the
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
  exclusive,  // victim cache: filled by evictions of the inner levels; a hit moves the line back to the inner level
  neither,    // filled by misses of the inner levels; evictions do not affect other levels
};
enum class WritePolicy {
  back,
  through
};  // through: stores also go to the next level, and a store miss does not fill the cache
enum class Coherence { mesi, moesi };
// The state of a modified line in the cache after a NIC has read it.
enum class DmaRead { keep, clean, invalidate };
// How a core learns of events of the NIC: it polls a queue in memory into which the NIC writes events, or it queries
// the NIC by commands.
enum class Polling { queue, command };

struct Cache {
  std::uint64_t size_bytes = 0;
  int ways = 0;
  int line_bytes = 0;  // granularity of tags
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
  int outstanding_bypass = 0;       // non-temporal accesses that one core has in flight; 0: as outstanding_misses
  int window = 0;                   // instructions that a core issues past a load that waits for its data; 0: no limit
  double flops_per_cycle = 0;       // throughput of independent floating-point instructions; 0: no time
  double flop_latency_cycles = 0;   // of a chain of floating-point instructions; 0: no time
  double mispredict_cycles = 0;     // from a mispredicted branch to the first instruction after it; 0: no time
  double copy_bytes_per_cycle = 0;  // of copies that hit L1; 0: they load and store words of 8 bytes
  double clock_reading_ns = 0;      // cost of one clock reading, which is part of every time that a scenario measures
};

// Further memory of a node, such as HBM or memory behind CXL. Pages are interleaved: a page lies in this tier with
// probability `share`, which is decided by its address alone.
struct MemoryTier {
  double latency_ns = 0;  // as Dram::latency_ns
  double gb_per_s = 0;    // as Dram::gb_per_s
  double share = 0;       // of the pages
};

struct Dram {
  double latency_ns = 0;  // of a load that misses all caches, when the memory is idle
  double gb_per_s = 0;    // of one memory, shared by cores and NIC; GB: 10^9 bytes
  int shared_by = 0;      // cores per memory; 0: one memory for all cores
  double remote_ns = 0;   // extra latency from cores of another memory
  int banks = 1;
  int bank_interleave_bytes = 64;
  double bank_busy_ns = 0;        // minimum time between two accesses to the same bank
  double gb_per_s_bypass = 0;     // of non-temporal accesses, per core; 0: as gb_per_s
  std::vector<MemoryTier> tiers;  // each memory has one of each; the pages outside of all tiers lie in the DRAM
};

enum class SocketTraffic { remote, everything };

// The connection of a socket to the rest of the node.
struct Socket {
  double gb_per_s = 0;  // into one socket; of a bus, both directions together; 0: no limit
  int shared_by = 0;    // cores of a socket; 0: all
  SocketTraffic carries = SocketTraffic::remote;
};

// The connections between the hubs of a node. A hub joins the cores of one memory (Dram::shared_by), that memory with
// its directory of sharers, and one link to a router.
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
  double miss_cycles = 0;  // extra time if a miss here hits the next level or walks the page tables
};

// How the physical address of a page is determined: it equals the virtual address, or it is random.
enum class PagePlacement { identity, random };

struct Pages {
  std::uint64_t page_bytes = 4096;
  PagePlacement placement = PagePlacement::identity;
  double fault_ns = 0;       // the first touch of a page
  double huge_fault_ns = 0;  // the first touch of a huge page of 2 MiB; 0: as fault_ns
  int walkers = 0;           // TLB misses that a core has in flight while it continues; 0: it stalls for each
  std::vector<Tlb> tlbs;     // L1 first
};

// The lines that a prefetcher fetches when it detects a stream: one line at the prefetch distance, or all lines up to
// that distance. With `all`, the first use of a prefetched line advances its stream, as a miss does.
enum class PrefetchExtent { one, all };

struct Prefetcher {
  int streams = 0;         // streams tracked per core; 0: there is no prefetcher
  int distance_lines = 0;  // prefetch distance ahead of the access
  int level = 1;           // the target cache, counted from 0
  int outstanding = 0;     // prefetches in flight; 0: prefetches share Core::outstanding_misses
  PrefetchExtent start = PrefetchExtent::one;
};

// The costs of getting a line from another core's cache.
struct Transfers {
  double shared_cycles = 0;        // from a private cache under the same last-level cache
  double remote_cycles = 0;        // from a cache under another last-level cache of the node
  double upgrade_cycles = 0;       // extra core time of a store to a line that other cores share
  double upgrade_miss_cycles = 0;  // the same if the store misses L1; 0: as upgrade_cycles
  int outstanding = 0;             // lines from other caches that a core has in flight; 0: as many as other misses
};

struct Nic {
  double gb_per_s = 0;    // between memory and network, per direction
  double dma_ns = 0;      // latency of a DMA write: from the NIC's decision until the line has arrived
  double post_ns = 0;     // core time to notify the NIC of a message (a write to a register)
  int event_bytes = 128;  // size of an event queue entry
  int event_entries = 1024;
  DmaRead read_of_modified = DmaRead::keep;
  Polling polling = Polling::queue;
  std::string policy = "memory";  // default placement policy for received payload
  int policy_ways = 0;            // ways per set into which the policy may inject; 0: any
};

struct Network {
  std::string topology = "full";  // full, torus, hypercube, fat-tree, dragonfly
  std::vector<int> shape;         // torus: routers per dimension; fat-tree: children per level; dragonfly: routers per
                                  // group, nodes per router, groups
  int nodes_per_router = 1;
  double latency_ns = 0;     // of the wire and the constant part of the routers, from NIC to NIC
  double hop_ns = 0;         // per hop beyond the first
  double gap_ns = 0;         // minimum time between two messages of a NIC
  double link_gb_per_s = 0;  // per direction
};

// How a packet inside a node is announced. in_line: each pair of ranks has lines of its own, which contain the headers.
// separate: each rank has one list of packets from all others. Its line has the address of the first packet, whose
// header is in another line and names the next packet. Messages of at most `unattended_bytes` do not go through the list.
enum class PacketHeader { in_line, separate };

// Whose algorithms collectives follow: src/sim/mpi/collectives/.
enum class CollectiveAlgorithms { mpich, openmpi };  // MPICH: those of 1.2.7

// The protocols of this machine's MPI, the message sizes at which the MPI switches protocols, and the costs of MPI
// calls.
struct Messaging {
  std::string network = "eager-rendezvous";  // protocols by name: src/sim/mpi/protocols/
  std::string node = "copy-in-copy-out";
  std::string pieces;  // inside a node, of long messages with min_pieces contiguous pieces or more; empty: as `node`
  std::uint64_t min_pieces = 2;
  std::uint64_t eager_bytes = 0;       // between nodes
  std::uint64_t node_eager_bytes = 0;  // inside a node
  std::uint64_t ring_bytes = 32768;    // of the ring that copy-in-copy-out goes through
  double send_ns = 0;                  // core time per call, excluding memory
  double receive_ns = 0;
  double match_ns = 0;             // core time per arrived message header
  double register_ns = 0;          // per page of memory registered for a zero-copy transfer
  double system_call_ns = 0;       // core time of the system call of a single copy
  double copy_page_ns = 0;         // additional core time of a single copy per page
  std::uint64_t inline_bytes = 0;  // the longest message inside a node that is sent inside the line that announces it
  PacketHeader headers = PacketHeader::in_line;  // inside a node
  double piece_ns = 0;                           // core time per contiguous piece of a datatype that is copied
  // The longest eager message inside a node whose send completes before the receiver has taken the message.
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

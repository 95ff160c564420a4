// The result of the analysis of one rank's stream: sums over MPI calls and messages. The rules of `nearfield advise`
// compare them with a profile.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace nearfield::advise {

// A histogram of the reuse distances of message lines, by the smallest cache that still contains the line: class i is
// within cache_capacities_bytes[i] of the options, the last class exceeds all limits. `lines`: number of lines per
// class. `bytes`: sum of the reuse distances per class.
struct ReuseHistogram {
  std::vector<std::uint64_t> lines;
  std::vector<double> bytes;
};

// Numbers of cache lines by the code location that accessed them (index in StreamReader::sites).
using Sites = std::map<std::uint32_t, std::uint64_t>;

// An MPI function called from one location.
struct MpiCall {
  std::string name;
  // The call stack, innermost first: the location of the MPI call, then the call sites of the enclosing functions. A
  // frame is the path of an object file and an offset in the file.
  std::vector<std::pair<std::string, std::uint64_t>> frames;
  std::uint64_t calls = 0, time_ns = 0, delayed_ns = 0;  // delayed: runnable, but without a core
};

// Messages that were posted by the same call and have the same peer, size and layout.
struct MessageGroup {
  std::size_t call_index = 0;
  bool is_send = false;
  std::uint64_t context = 0;        // of the communicator
  std::int64_t rank = 0, peer = 0;  // in the communicator
  std::uint64_t world_peer = 0;     // in MPI_COMM_WORLD
  std::uint64_t bytes = 0;          // of one message
  std::uint64_t piece_bytes = 0;    // of one contiguous piece; equal to `bytes` if the message is contiguous
  std::int64_t stride_bytes = 0;    // from one piece to the next; 0: contiguous
  std::uint64_t messages = 0;
  std::uint64_t address = 0;      // of the first message's first byte
  bool is_heap_allocated = true;  // the first byte is neither on the stack nor in a static variable
  // Reuse distances. Sends: from the last access to a line until the send. Receives: from the completion of the receive
  // until the first load or store.
  ReuseHistogram reuse_distances;
  // Code locations of lines whose reuse distance exceeds the first limit. Sends: the last store to the line. Receives:
  // the first access to the line.
  Sites sites;
  std::uint64_t lines = 0;                // sum over the messages, of sampled lines only
  std::uint64_t num_untouched_lines = 0;  // lines that were never accessed before the send, or never after the receive
};

// How many messages of the group `messages` completed in one call (`call`), which may differ from the call that posted
// them.
struct CompletionCount {
  std::size_t call = 0, messages = 0;  // indices in StreamAnalysisResult::calls and StreamAnalysisResult::messages
  std::uint64_t num_completions = 0;
};

// Bursts of small messages from one call to one peer. Each burst could have been a single message.
struct Burst {
  std::size_t call = 0;
  std::uint64_t world_peer = 0;
  std::uint64_t bursts = 0, messages = 0, bytes = 0;
};

struct CollectiveCalls {
  std::size_t call = 0;
  unsigned kind = 0;  // stream::CollectiveKind
  std::uint64_t bytes = 0, ranks = 0, calls = 0;
};

// The blocking collectives of a communicator that synchronise its members (barrier, allreduce, allgather, alltoall and
// similar ones, which no rank leaves before the last rank has arrived), in the order of the calls, which is the same on
// all members. Only the first `max_calls` calls are recorded.
struct SynchronizingCalls {
  static constexpr std::size_t max_calls = 1 << 18;
  std::uint64_t context = 0;
  std::vector<std::uint64_t> world;  // the members' ranks in MPI_COMM_WORLD
  std::vector<std::uint64_t> calls;  // indices in StreamAnalysisResult::calls
  // Times in the call; 0: a part of the data is empty, so the call need not synchronise.
  std::vector<std::uint64_t> times_ns;
};

// The neighbours of this rank in a communicator with a process topology, as in neighbourhood collectives.
struct ProcessTopology {
  std::uint64_t context = 0;
  std::vector<std::uint64_t> world;
  std::int64_t rank = 0;
  std::vector<std::int64_t> sources, destinations;  // or stream::proc_null
};

struct StreamAnalysisResult {
  std::uint64_t rank = 0, ranks = 0;
  std::string host;
  bool reports_delays = false;  // the system reports delays; if false, all delays are 0
  std::uint64_t accesses = 0, time_between_calls_ns = 0, delay_between_calls_ns = 0;
  double sampled_share = 1;  // of the cache lines
  bool has_end_event = false;
  std::vector<MpiCall> calls;
  std::vector<MessageGroup> messages;
  std::vector<CompletionCount> completions;
  std::vector<Burst> bursts;
  std::vector<CollectiveCalls> collectives;
  std::vector<SynchronizingCalls> synchronizations;
  std::vector<ProcessTopology> topologies;
  std::vector<std::string> objects;  // paths, by object number
};

}  // namespace nearfield::advise

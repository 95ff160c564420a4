// The result of analysing one rank's stream: sums over calls and messages, which checks compare with a profile.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace nearfield::advise {

// Lines of messages by the smallest cache that would still contain them: class i is within limits[i] of the options,
// the last class is beyond all. `bytes` is the sum of their reuse distances.
struct Reach {
  std::vector<std::uint64_t> lines;
  std::vector<double> bytes;
};

// Numbers of lines by the site that touched them (Reader::sites).
using Sites = std::map<std::uint32_t, std::uint64_t>;

// An MPI function called from one location.
struct Call {
  std::string name;
  // The location of the call, and the call sites of the functions around it: paths of objects, and offsets.
  std::vector<std::pair<std::string, std::uint64_t>> frames;
  std::uint64_t calls = 0, time_ns = 0, delayed_ns = 0;  // delayed: runnable without a core
};

// Messages with a common posting call, peer, size and layout.
struct Messages {
  std::size_t call = 0;
  bool sends = false;
  std::uint64_t context = 0;        // of the communicator
  std::int64_t rank = 0, peer = 0;  // in the communicator
  std::uint64_t world_peer = 0;     // in MPI_COMM_WORLD
  std::uint64_t bytes = 0;          // of one message
  std::uint64_t piece_bytes = 0;    // of a contiguous piece; `bytes` if contiguous
  std::int64_t stride_bytes = 0;    // from one piece to the next; 0: contiguous
  std::uint64_t messages = 0;
  std::uint64_t address = 0;  // of the first message's first byte
  bool allocated = true;      // that byte is neither on the stack nor in a static variable
  // Sends: from the last touch of a line to the send. Receives: from the receive's completion to the first load or
  // store.
  Reach reach;
  // Sends: the writers of lines that were beyond the first limit. Receives: the first accesses to such lines.
  Sites sites;
  std::uint64_t lines = 0;      // of all these messages, as far as known
  std::uint64_t untouched = 0;  // sends: never touched before; receives: never touched afterwards
};

// Messages that completed in a call, which may differ from the `call` that posted them.
struct Ended {
  std::size_t call = 0, messages = 0;  // indices
  std::uint64_t times = 0;
};

// Runs of small messages to one peer from one call that could have been one message.
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

// The synchronising blocking collectives of a communicator (barrier, allreduce, allgather, alltoall and similar ones,
// which no rank leaves before the last one has arrived), in their order, which is the same on all members. Only the
// first `max_calls` are recorded.
struct Synchronisations {
  static constexpr std::size_t max_calls = 1 << 18;
  std::uint64_t context = 0;
  std::vector<std::uint64_t> world;     // the members' ranks
  std::vector<std::uint64_t> calls;     // indices of the calls
  std::vector<std::uint64_t> times_ns;  // in the call; 0: a part has no bytes, so it need not synchronise
};

// A communicator with a topology: this rank's neighbours, as in neighbourhood collectives.
struct Topology {
  std::uint64_t context = 0;
  std::vector<std::uint64_t> world;
  std::int64_t rank = 0;
  std::vector<std::int64_t> sources, destinations;  // or stream::proc_null
};

struct AnalysisResult {
  std::uint64_t rank = 0, ranks = 0;
  std::string host;
  bool delays = false;  // the system reports delays; otherwise they are 0
  std::uint64_t accesses = 0, between_calls_ns = 0, delayed_between_ns = 0;
  double sampled = 1;  // share of the lines that is sampled
  bool ended = false;  // the stream has an End event
  std::vector<Call> calls;
  std::vector<Messages> messages;
  std::vector<Ended> ended_in;
  std::vector<Burst> bursts;
  std::vector<CollectiveCalls> collectives;
  std::vector<Synchronisations> synchronisations;
  std::vector<Topology> topologies;
  std::vector<std::string> objects;  // paths, by object number
};

}  // namespace nearfield::advise

// What an analysis finds in one rank's stream: sums over calls and messages, which rules compare with a profile.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace nearfield::advise {

// Lines of messages, by the smallest cache that would still have them: class i is within limits[i] of the options, the
// last class is beyond all. `bytes` is the sum of their distances.
struct Reach {
  std::vector<std::uint64_t> lines;
  std::vector<double> bytes;
};

// Lines by the site that touched them (Reader::sites).
using Sites = std::map<std::uint32_t, std::uint64_t>;

// An MPI function, called from one place.
struct Call {
  std::string name;
  // The place of the call, and those where the functions around it were called: paths of objects, and offsets.
  std::vector<std::pair<std::string, std::uint64_t>> frames;
  std::uint64_t calls = 0, time_ns = 0, delayed_ns = 0;  // delayed: of the time, without a core though ready to run
};

// Messages of one kind: from the same call (that which posted them), with the same peer, size and layout.
struct Messages {
  std::size_t call = 0;
  bool sends = false;
  std::uint64_t context = 0;        // of the communicator
  std::int64_t rank = 0, peer = 0;  // in the communicator
  std::uint64_t world_peer = 0;     // in MPI_COMM_WORLD
  std::uint64_t bytes = 0;          // of one message
  std::uint64_t piece_bytes = 0;    // of a contiguous piece; `bytes` if it is in one piece
  std::int64_t stride_bytes = 0;    // from one piece to the next; 0: in one piece
  std::uint64_t messages = 0;
  std::uint64_t address = 0;  // of the first message's first byte
  bool allocated = true;      // that byte is neither on the stack nor in a variable of the program
  // Sends: from the last touch of a line to the send. Receives: from the receive's end to the first load or store.
  Reach reach;
  // Sends: who wrote the lines that lay beyond the first limit. Receives: who touched such lines first.
  Sites sites;
  std::uint64_t lines = 0;      // of all these messages, as far as they are known
  std::uint64_t untouched = 0;  // sends: nobody had touched them; receives: nobody did afterwards
};

// Messages that a call waited for: they ended in it. What was posted by `call` of the messages may end in another one.
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

// The blocking collectives of a communicator that no rank leaves before the last one has come, in their order, which is
// that of all members: barrier, allreduce, allgather, alltoall and the like. Later ones than the first `most` are left out.
struct Synchronisations {
  static constexpr std::size_t most = 1 << 18;
  std::uint64_t context = 0;
  std::vector<std::uint64_t> world;     // the members' ranks
  std::vector<std::uint64_t> calls;     // indices of the calls
  std::vector<std::uint64_t> times_ns;  // in the call; 0: some part has no bytes, and it need not wait for all
};

// A communicator with a topology: the neighbours of this rank, as neighbourhood collectives have them.
struct Topology {
  std::uint64_t context = 0;
  std::vector<std::uint64_t> world;
  std::int64_t rank = 0;
  std::vector<std::int64_t> sources, destinations;  // or stream::proc_null
};

struct Found {
  std::uint64_t rank = 0, ranks = 0;
  std::string host;
  bool delays = false;  // the system told delays; else they are 0
  std::uint64_t accesses = 0, between_calls_ns = 0, delayed_between_ns = 0;
  double sampled = 1;  // share of lines in the footprint's sample
  bool ended = false;  // the stream has its end
  std::vector<Call> calls;
  std::vector<Messages> messages;
  std::vector<Ended> ended_in;
  std::vector<Burst> bursts;
  std::vector<CollectiveCalls> collectives;
  std::vector<Synchronisations> synchronisations;
  std::vector<Topology> topologies;
  std::vector<std::string> objects;  // paths, by the numbers that sites know them by
};

}  // namespace nearfield::advise

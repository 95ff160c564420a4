// The events of a stream, that is, all of its contents except accesses. The profiling layer writes them; replay, advise
// and `show` read them. They are fewer than MPI's functions: a blocking call is recorded as the nonblocking one and a
// wait, a persistent request as what each start does, a derived datatype as its blocks. So a reader knows about twenty
// kinds.
//
// Communicators, requests, layouts and texts have numbers that the stream's own rank assigned; an event that assigns a
// number precedes those that use it. Ranks called `peer` are ranks of the communicator, `world` ranks of
// MPI_COMM_WORLD. Times are those of the observed run, in nanoseconds since the previous event with a time; only
// `enter` and `leave` have them. Left out: one-sided calls, dynamic processes, files; a program that uses them gets a
// `refused` event.
//
// A new kind of event, or a new field, requires a new version of the format (format.hpp).
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace nearfield::stream {

using Number = std::uint64_t;

constexpr std::int64_t any = -1;        // MPI_ANY_SOURCE, MPI_ANY_TAG
constexpr std::int64_t proc_null = -2;  // MPI_PROC_NULL

// Each event lists its fields once, in serialisation order: `fields(event, visit)` calls visit(name, member) for each.
// Its name in files and messages is `called`.

// This process is rank `rank` of `ranks`: the first event of an MPI program, written in MPI_Init. Earlier events and
// accesses happened before MPI_Init.
struct RankInfo {
  static constexpr const char* called = "rank_is";
  Number rank = 0, ranks = 1;
  std::string host;
  std::string library;   // first line of MPI_Get_library_version
  bool is_live = false;  // a simulation decides nondeterministic outcomes, so there are WaitStarted and Ask events
  bool delays = false;   // the system reports `delayed_ns` (Enter, Leave); otherwise it is 0
  static void fields(auto& e, auto visit) {
    visit("rank", e.rank), visit("ranks", e.ranks), visit("host", e.host), visit("library", e.library);
    visit("asks", e.is_live), visit("delays", e.delays);
  }
};

// Assigns a number to a text: the name of an MPI function or region.
struct Text {
  static constexpr const char* called = "text";
  Number text = 0;
  std::string is;
  static void fields(auto& e, auto visit) { visit("text", e.text), visit("is", e.is); }
};

// The executable or a shared library, which contains sites. Objects are numbered from 0 in order of appearance.
struct Object {
  static constexpr const char* called = "object";
  Number object = 0;
  std::string path;
  static void fields(auto& e, auto visit) { visit("object", e.object), visit("path", e.path); }
};

// A code location from which MPI is called: the return address of the call, as an offset in the object's file (what
// addr2line takes). `callers` are pairs of object and offset: the call site of the function with the call, and so on,
// as far as functions were compiled with hooks, `max_callers` at most. They distinguish the callers of wrappers of MPI.
struct CallSite {
  static constexpr const char* called = "call_site";
  static constexpr std::size_t max_callers = 3;
  Number call_site = 0, object = 0, offset = 0;
  std::vector<Number> callers;
  static void fields(auto& e, auto visit) {
    visit("call_site", e.call_site), visit("object", e.object), visit("offset", e.offset), visit("callers", e.callers);
  }
};

// The program calls the MPI function whose name is the text `name`; its effects follow until `leave`. `delayed_ns` is
// the part of `since_ns` in which the rank was runnable without a core, because something else ran there.
struct Enter {
  static constexpr const char* called = "enter";
  Number name = 0, call_site = 0, since_ns = 0, delayed_ns = 0;
  static void fields(auto& e, auto visit) {
    visit("name", e.name), visit("call_site", e.call_site), visit("since_ns", e.since_ns);
    visit("delayed_ns", e.delayed_ns);
  }
};
struct Leave {
  static constexpr const char* called = "leave";
  Number since_ns = 0, delayed_ns = 0;
  static void fields(auto& e, auto visit) { visit("since_ns", e.since_ns), visit("delayed_ns", e.delayed_ns); }
};

// A communicator that the rank is a member of, including MPI_COMM_WORLD and MPI_COMM_SELF. `context` is the same number
// on all members and unique in the run. `world` lists the members in rank order; `remote` is the other group of an
// intercommunicator, and empty otherwise. `sources` and `destinations` are the neighbours in its topology, if it has
// one, from which neighbourhood collectives receive and to which they send. MPI_Comm_set_name repeats the event with
// the same numbers.
struct Communicator {
  static constexpr const char* called = "communicator";
  Number communicator = 0, context = 0;
  std::vector<Number> world, remote;
  std::string name;
  std::vector<std::int64_t> sources, destinations;  // or proc_null
  static void fields(auto& e, auto visit) {
    visit("communicator", e.communicator), visit("context", e.context), visit("world", e.world),
        visit("remote", e.remote), visit("name", e.name), visit("sources", e.sources),
        visit("destinations", e.destinations);
  }
};

// The bytes of one element of a datatype: runs of `count` blocks of `bytes` each, `stride_bytes` apart, the first one
// at `offset_bytes` from the buffer's address. Elements are `extent_bytes` apart. All blocks together have
// `size_bytes`.
struct LayoutRun {
  std::int64_t offset_bytes = 0;
  Number bytes = 0, count = 1;
  std::int64_t stride_bytes = 0;
  static void fields(auto& e, auto visit) {
    visit("offset_bytes", e.offset_bytes), visit("bytes", e.bytes), visit("count", e.count),
        visit("stride_bytes", e.stride_bytes);
  }
};
struct Layout {
  static constexpr const char* called = "layout";
  Number layout = 0, size_bytes = 0;
  std::int64_t extent_bytes = 0;
  std::vector<LayoutRun> runs;
  std::string name;  // from MPI_Type_get_name, or the constructor from MPI_Type_get_envelope
  static void fields(auto& e, auto visit) {
    visit("layout", e.layout), visit("size_bytes", e.size_bytes), visit("extent_bytes", e.extent_bytes),
        visit("runs", e.runs), visit("name", e.name);
  }
};

// `count` elements of a layout, starting at an address.
struct Data {
  Number address = 0, count = 0, layout = 0;
  static void fields(auto& e, auto visit) {
    visit("address", e.address), visit("count", e.count), visit("layout", e.layout);
  }
};

enum class Mode : std::uint8_t { standard, synchronous, buffered, ready };

// Requests are numbered from 1; a number is reused only after `wait`, `looked` or `forget` ended it.
struct Send {
  static constexpr const char* called = "send";
  Number request = 0;
  Mode mode = Mode::standard;
  Number communicator = 0;
  std::int64_t peer = 0, tag = 0;
  Data data;
  static void fields(auto& e, auto visit) {
    visit("request", e.request), visit("mode", e.mode), visit("communicator", e.communicator), visit("peer", e.peer),
        visit("tag", e.tag), visit("data", e.data);
  }
};
struct Receive {
  static constexpr const char* called = "receive";
  Number request = 0;
  Number communicator = 0;
  std::int64_t peer = 0, tag = 0;  // or any
  Data data;                       // at most
  bool notify_on_match = false;    // the rank waits for its live simulation to report the match
  static void fields(auto& e, auto visit) {
    visit("request", e.request), visit("communicator", e.communicator), visit("peer", e.peer), visit("tag", e.tag),
        visit("data", e.data), visit("told", e.notify_on_match);
  }
};

// The message that a receive or probe matched. It precedes the `wait`, `looked` or `probe` of the call that returned
// it.
struct Outcome {
  static constexpr const char* called = "outcome";
  Number request = 0;  // 0: of a probe
  std::int64_t peer = 0, tag = 0;
  Number bytes = 0;
  static void fields(auto& e, auto visit) {
    visit("request", e.request), visit("peer", e.peer), visit("tag", e.tag), visit("bytes", e.bytes);
  }
};

// The rank has waited for the completion of all of these requests; they are inactive afterwards.
struct Completed {
  static constexpr const char* called = "wait";
  std::vector<Number> requests;
  static void fields(auto& e, auto visit) { visit("requests", e.requests); }
};

// The rank tested the requests `at` and learnt that `done` have completed, which are inactive afterwards: Test,
// Testall, Testany, Testsome, Request_get_status. With `waited` it blocked until at least one completed: Waitany,
// Waitsome.
struct Tested {
  static constexpr const char* called = "looked";
  std::vector<Number> at, done;
  bool waited = false;
  static void fields(auto& e, auto visit) { visit("at", e.at), visit("done", e.done), visit("waited", e.waited); }
};

// Probe (`waited`) or Iprobe; `found` says whether there was a message, which the preceding `outcome` describes. Mprobe
// and Improbe are recorded likewise, and the receive of the matched message as a Receive of its source and tag.
struct Probe {
  static constexpr const char* called = "probe";
  Number communicator = 0;
  std::int64_t peer = 0, tag = 0;  // or any
  bool waited = false, found = false;
  static void fields(auto& e, auto visit) {
    visit("communicator", e.communicator), visit("peer", e.peer), visit("tag", e.tag), visit("waited", e.waited),
        visit("found", e.found);
  }
};

// A request that is never completed by a wait: MPI_Request_free.
struct Forget {
  static constexpr const char* called = "forget";
  Number request = 0;
  static void fields(auto& e, auto visit) { visit("request", e.request); }
};

// A collective operation. Kinds with lists (v, w) have one part per rank of the communicator or per neighbour, the
// others one part in total: MPI's arguments, including `root` (0 if there is none). A rank that sends or receives
// nothing (not the root) has no parts on that side; the root of a broadcast gives the buffer, the others get it.
// `request` is 0 if it blocks.
enum class CollectiveKind : std::uint8_t {
  barrier,
  bcast,
  reduce,
  allreduce,
  gather,
  gatherv,
  scatter,
  scatterv,
  allgather,
  allgatherv,
  alltoall,
  alltoallv,
  alltoallw,
  reduce_scatter,
  reduce_scatter_block,
  scan,
  exscan,
  neighbor_allgather,
  neighbor_allgatherv,
  neighbor_alltoall,
  neighbor_alltoallv,
  neighbor_alltoallw,
};
struct Collective {
  static constexpr const char* called = "collective";
  Number request = 0;
  CollectiveKind kind = CollectiveKind::barrier;
  Number communicator = 0, root = 0;
  // `gives` is empty, and the input lies in `gets`, of which reduce_scatter then has one part per rank. For scatter and
  // scatterv the root's `gets` is empty instead, since its own part stays in place.
  bool in_place = false;
  bool commutes = true;  // for reductions
  std::vector<Data> gives, gets;
  static void fields(auto& e, auto visit) {
    visit("request", e.request), visit("kind", e.kind), visit("communicator", e.communicator), visit("root", e.root),
        visit("in_place", e.in_place), visit("commutes", e.commutes);
    visit("gives", e.gives), visit("gets", e.gets);
  }
};

// The program called MPI_Pcontrol: the region with this name, "pcontrol", begins (level > 0) or ends (0).
struct Region {
  static constexpr const char* called = "region";
  Number name = 0;
  std::int64_t level = 1;
  static void fields(auto& e, auto visit) { visit("name", e.name), visit("level", e.level); }
};

// The program does something that no event describes, so it cannot be simulated; the text `what` says what.
struct Unsupported {
  static constexpr const char* called = "refused";
  Number what = 0;
  static void fields(auto& e, auto visit) { visit("what", e.what); }
};

// The rank has ended: in MPI_Finalize, or at the end of a program without MPI.
struct End {
  static constexpr const char* called = "end";
  static void fields(auto&, auto) {}
};

// All code locations that accessed memory or called MPI, as pairs of object and offset, and the paths of all objects.
// It is the last event of a stream that was closed, in a chunk of its own, so that it can be found without reading the
// others.
struct Sites {
  static constexpr const char* called = "sites";
  std::vector<std::string> objects;
  std::vector<Number> places;
  static void fields(auto& e, auto visit) { visit("objects", e.objects), visit("places", e.places); }
};

// The rank begins to wait for all of these; `wait` records the completion. It precedes the rank's blocking, so a live
// simulation knows that the rank waits.
struct WaitStarted {
  static constexpr const char* called = "waits";
  std::vector<Number> requests;
  static void fields(auto& e, auto visit) { visit("requests", e.requests); }
};

// The rank queries its live simulation about a nondeterministic outcome and blocks until the reply (live_reply.hpp).
// The result follows: `looked` after `one`, `all` and `some`, which query requests, or `probe` after `message`. `clock`
// queries the time.
enum class Question : std::uint8_t { one, all, some, message, clock };
struct Query {
  static constexpr const char* called = "ask";
  Question question = Question::one;
  std::vector<Number> at;  // requests
  bool waited = false;     // the rank blocks until a request has completed or a message has arrived
  Number communicator = 0;
  std::int64_t peer = 0, tag = 0;  // of messages; may be any
  static void fields(auto& e, auto visit) {
    visit("question", e.question), visit("at", e.at), visit("waited", e.waited);
    visit("communicator", e.communicator), visit("peer", e.peer), visit("tag", e.tag);
  }
  bool operator==(const Query&) const = default;
};

// Memory that no allocator provided, but that may hold message buffers: the variables of the executable and of the
// libraries loaded in MPI_Init, as pairs of an address and a number of bytes, and the stack of the thread that called
// it.
struct StaticAndStackRanges {
  static constexpr const char* called = "unallocated";
  std::vector<Number> variables;
  Number stack = 0, stack_bytes = 0;
  static void fields(auto& e, auto visit) {
    visit("variables", e.variables), visit("stack", e.stack), visit("stack_bytes", e.stack_bytes);
  }
};

// The number of an event's kind in the stream is its index in this list.
using Event = std::variant<RankInfo, Text, Object, CallSite, Enter, Leave, Communicator, Layout, Send, Receive, Outcome,
                           Completed, Tested, Probe, Forget, Collective, Region, Unsupported, End, Sites, WaitStarted,
                           Query, StaticAndStackRanges>;

}  // namespace nearfield::stream

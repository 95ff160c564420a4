// The events of a stream, which are all that it says besides accesses: the vocabulary that the profiling layer writes,
// and that replay, advise and `show` read. It is smaller than MPI's: a blocking call is its nonblocking one and a wait,
// a persistent request is what each start of it does, a derived datatype is the blocks that it describes. So a reader
// knows a dozen kinds of events.
//
// Communicators, requests, layouts and texts have numbers that the stream's own rank gave them; an event that gives a
// number comes before those that use it. Ranks called `peer` are those of the communicator, `world` those of
// MPI_COMM_WORLD. Times are of the observed run, in nanoseconds since the event before, and only `enter` and `leave`
// have them. Left out: one-sided calls, dynamic processes, files; the stream says `refused` where the program uses them.
//
// A new kind of event, or a new field, is a new version of the format (stream.hpp).
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace nearfield::stream {

using Number = std::uint64_t;

constexpr std::int64_t any = -1;        // MPI_ANY_SOURCE, MPI_ANY_TAG
constexpr std::int64_t proc_null = -2;  // MPI_PROC_NULL

// Each event lists its fields once, in the order of the bytes: `fields(event, visit)` calls visit(name, member) for each.
// People know the event as `called`.

// This process is rank `rank` of `ranks`: the first event of an MPI program, written in MPI_Init. Events and accesses
// before it are of the time before MPI_Init.
struct RankIs {
  static constexpr const char* called = "rank_is";
  Number rank = 0, ranks = 1;
  std::string host;
  std::string library;  // first line of MPI_Get_library_version
  bool asks = false;    // a simulation decides what MPI leaves to time: there are Waits and Ask events
  bool delays = false;  // the system tells `delayed_ns` (Enter, Leave); else they are 0
  static void fields(auto& e, auto visit) {
    visit("rank", e.rank), visit("ranks", e.ranks), visit("host", e.host), visit("library", e.library);
    visit("asks", e.asks), visit("delays", e.delays);
  }
};

// Gives text a number: names of MPI calls and of regions.
struct Text {
  static constexpr const char* called = "text";
  Number text = 0;
  std::string is;
  static void fields(auto& e, auto visit) { visit("text", e.text), visit("is", e.is); }
};

// The executable or a shared library, of which sites are places. Objects count from 0, in the order in which they come.
struct Object {
  static constexpr const char* called = "object";
  Number object = 0;
  std::string path;
  static void fields(auto& e, auto visit) { visit("object", e.object), visit("path", e.path); }
};

// A place in the program from which MPI is called: the return address of the call, as an offset in the object's file
// (what addr2line takes). `callers` are pairs of an object and an offset: where the function with the call was called, and
// so on, as far as functions were compiled with hooks, `most_callers` at most. Wrappers of MPI are told apart by them.
struct CallSite {
  static constexpr const char* called = "call_site";
  static constexpr std::size_t most_callers = 3;
  Number call_site = 0, object = 0, offset = 0;
  std::vector<Number> callers;
  static void fields(auto& e, auto visit) {
    visit("call_site", e.call_site), visit("object", e.object), visit("offset", e.offset), visit("callers", e.callers);
  }
};

// The program calls the MPI function that `name` is the text of; what it does follows until `leave`. `delayed_ns` is the
// part of `since_ns` in which the rank was ready to run and had no core, because something else ran there.
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

// A communicator that the rank is a member of: MPI_COMM_WORLD and MPI_COMM_SELF too. `context` is the same number on all
// members and of no other communicator of the run. `world` has the members in the order of their ranks in it; an
// intercommunicator's `remote` has the other group, and is empty otherwise. `sources` and `destinations` are the ranks
// that neighbourhood collectives get from and give to, if it has a topology. When MPI_Comm_set_name names it, the event
// comes again, with the same numbers.
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

// The bytes of one element of a datatype: runs of `count` blocks of `bytes` each, `stride_bytes` apart, the first one at
// `offset_bytes` from the buffer's address. Elements are `extent_bytes` apart. The sum of all blocks is `size_bytes`.
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
  std::string name;  // MPI_Type_get_name, or what MPI_Type_get_envelope says
  static void fields(auto& e, auto visit) {
    visit("layout", e.layout), visit("size_bytes", e.size_bytes), visit("extent_bytes", e.extent_bytes),
        visit("runs", e.runs), visit("name", e.name);
  }
};

// `count` elements of a layout from an address on.
struct Data {
  Number address = 0, count = 0, layout = 0;
  static void fields(auto& e, auto visit) {
    visit("address", e.address), visit("count", e.count), visit("layout", e.layout);
  }
};

enum class Mode : std::uint8_t { standard, synchronous, buffered, ready };

// Requests count from 1, and a number is given again only after `wait`, `outcome` or `forget` ended it.
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
  bool told = false;               // the rank wants to know from its simulation which message this one gets
  static void fields(auto& e, auto visit) {
    visit("request", e.request), visit("communicator", e.communicator), visit("peer", e.peer), visit("tag", e.tag),
        visit("data", e.data), visit("told", e.told);
  }
};

// The message that a receive got or a probe saw. It stands before the `wait` or `looked` of the call that told the program.
struct Outcome {
  static constexpr const char* called = "outcome";
  Number request = 0;  // 0: of a probe
  std::int64_t peer = 0, tag = 0;
  Number bytes = 0;
  static void fields(auto& e, auto visit) {
    visit("request", e.request), visit("peer", e.peer), visit("tag", e.tag), visit("bytes", e.bytes);
  }
};

// The rank goes on when all of these are done; they are over then.
struct Wait {
  static constexpr const char* called = "wait";
  std::vector<Number> requests;
  static void fields(auto& e, auto visit) { visit("requests", e.requests); }
};

// The rank asked which of some requests are done, and was told `done`, which are over then: Test, Testall, Testany,
// Testsome, Request_get_status; with `waited` it went on only when at least one was: Waitany, Waitsome.
struct Looked {
  static constexpr const char* called = "looked";
  std::vector<Number> at, done;
  bool waited = false;
  static void fields(auto& e, auto visit) { visit("at", e.at), visit("done", e.done), visit("waited", e.waited); }
};

// Probe (`waited`) and Iprobe, of which `found` tells whether there was a message; then `outcome` said which. A matched
// probe (Mprobe, Improbe) is one too, and the receive of its message is a Receive of that source and tag.
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

// A request that nobody will wait for: MPI_Request_free.
struct Forget {
  static constexpr const char* called = "forget";
  Number request = 0;
  static void fields(auto& e, auto visit) { visit("request", e.request); }
};

// A collective operation. `kind` says which; those with lists (v, w) have one part per rank of the communicator or per
// neighbour, and the others one part for all: what the arguments of MPI say, `root` included (0 where there is none). A
// rank that gives or gets nothing (not the root) has no parts there; a broadcast's buffer is given by the root and got by
// the others. `request` is 0 if it blocks.
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
  // `gives` is empty, and what it gives lies in `gets`, of which reduce_scatter then has a part per rank. Of scatter and
  // scatterv it is the root's `gets` that is empty, since its own part stays where it is.
  bool in_place = false;
  bool commutes = true;  // of reductions
  std::vector<Data> gives, gets;
  static void fields(auto& e, auto visit) {
    visit("request", e.request), visit("kind", e.kind), visit("communicator", e.communicator), visit("root", e.root),
        visit("in_place", e.in_place), visit("commutes", e.commutes);
    visit("gives", e.gives), visit("gets", e.gets);
  }
};

// The program called MPI_Pcontrol: the region whose name the text is, "pcontrol", begins (level > 0) or ends (0).
struct Region {
  static constexpr const char* called = "region";
  Number name = 0;
  std::int64_t level = 1;
  static void fields(auto& e, auto visit) { visit("name", e.name), visit("level", e.level); }
};

// The program does what nothing here describes, and `what` is the text that says what: it cannot be simulated.
struct Refused {
  static constexpr const char* called = "refused";
  Number what = 0;
  static void fields(auto& e, auto visit) { visit("what", e.what); }
};

// The rank is done: in MPI_Finalize, or at the end of a program without MPI.
struct End {
  static constexpr const char* called = "end";
  static void fields(auto&, auto) {}
};

// All places in the program that accessed memory or called MPI, as pairs of an object and an offset in it, and the paths
// of all objects: the last event of a stream that was closed, in a chunk of its own, so that it can be found without
// reading all others.
struct Sites {
  static constexpr const char* called = "sites";
  std::vector<std::string> objects;
  std::vector<Number> places;
  static void fields(auto& e, auto visit) { visit("objects", e.objects), visit("places", e.places); }
};

// The rank begins to wait for all of these; `wait` says later that it went on. It comes before the rank is stopped, so
// that a simulation that goes on meanwhile knows that it waits.
struct Waits {
  static constexpr const char* called = "waits";
  std::vector<Number> requests;
  static void fields(auto& e, auto visit) { visit("requests", e.requests); }
};

// The rank asks its simulation what time decides, and waits for the answer (answer.hpp). What the program was told
// follows: `looked` after `one`, `all` and `some`, which ask about requests, or `probe` after `message`. `clock` asks for
// the time.
enum class Question : std::uint8_t { one, all, some, message, clock };
struct Ask {
  static constexpr const char* called = "ask";
  Question question = Question::one;
  std::vector<Number> at;  // requests
  bool waited = false;     // the rank goes on only when one is done, or a message there
  Number communicator = 0;
  std::int64_t peer = 0, tag = 0;  // of messages; or any
  static void fields(auto& e, auto visit) {
    visit("question", e.question), visit("at", e.at), visit("waited", e.waited);
    visit("communicator", e.communicator), visit("peer", e.peer), visit("tag", e.tag);
  }
  bool operator==(const Ask&) const = default;
};

// Memory that no allocator gave the program, and in which it may have message buffers: the variables of the executable and
// of the libraries that are there in MPI_Init, as pairs of an address and a number of bytes, and the stack of the thread
// that called it.
struct Unallocated {
  static constexpr const char* called = "unallocated";
  std::vector<Number> variables;
  Number stack = 0, stack_bytes = 0;
  static void fields(auto& e, auto visit) {
    visit("variables", e.variables), visit("stack", e.stack), visit("stack_bytes", e.stack_bytes);
  }
};

// The number of a kind of event in the stream is its place here.
using Event =
    std::variant<RankIs, Text, Object, CallSite, Enter, Leave, Communicator, Layout, Send, Receive, Outcome, Wait,
                 Looked, Probe, Forget, Collective, Region, Refused, End, Sites, Waits, Ask, Unallocated>;

}  // namespace nearfield::stream

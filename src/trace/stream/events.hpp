// The events of a stream: everything in a stream except memory accesses. The profiling layer writes them; replay,
// advise and `show` read them. There are about twenty kinds of events, fewer than MPI has functions: a blocking call is
// recorded as the nonblocking call and a wait, each start of a persistent request as the operation that it starts, and
// a derived datatype as its blocks of bytes.
//
// The rank that writes a stream numbers its communicators, requests, layouts and texts; an event that assigns a number
// precedes the events that use it. Ranks called `peer` are ranks of the communicator, ranks called `world` are those of
// MPI_COMM_WORLD. Times are those of the observed run, in nanoseconds since the previous event with a time; only
// `enter` and `leave` have times. One-sided calls, dynamic processes and files are not recorded; a program that uses
// them gets a `refused` event.
//
// A new kind of event, or a new field, requires a new version of the format (format.hpp).
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace nearfield::stream {

using Number = std::uint64_t;

constexpr std::int64_t any_source_or_tag = -1;  // MPI_ANY_SOURCE, MPI_ANY_TAG
constexpr std::int64_t proc_null = -2;          // MPI_PROC_NULL

// Each event lists its fields once, in serialisation order: `fields(event, visit)` calls visit(name, member) for each.
// `event_name` is the name of the event in files and messages.

// This process is rank `rank` of `ranks`: the first event of an MPI program, written in MPI_Init. Earlier events and
// accesses happened before MPI_Init.
struct RankInfo {
  static constexpr const char* event_name = "rank_is";
  Number rank = 0, ranks = 1;
  std::string host;
  std::string library;          // first line of MPI_Get_library_version
  bool is_live = false;         // a live simulation decides nondeterministic outcomes (WaitStarted, Query)
  bool reports_delays = false;  // the operating system reports `delayed_ns` (Enter, Leave); false: it is always 0
  static void visit_fields(auto& e, auto visit) {
    visit("rank", e.rank), visit("ranks", e.ranks), visit("host", e.host), visit("library", e.library);
    visit("asks", e.is_live), visit("delays", e.reports_delays);
  }
};

// Assigns a number to a text: the name of an MPI function or region.
struct Text {
  static constexpr const char* event_name = "text";
  Number string_id = 0;
  std::string content;
  static void visit_fields(auto& e, auto visit) { visit("text", e.string_id), visit("is", e.content); }
};

// The executable or a shared library of the observed program, which contains sites. Objects are numbered from 0 in
// order of appearance.
struct Object {
  static constexpr const char* event_name = "object";
  Number object = 0;
  std::string path;
  static void visit_fields(auto& e, auto visit) { visit("object", e.object), visit("path", e.path); }
};

// A code location that calls MPI: the return address of the call, as an offset in the file of the object (the argument
// of addr2line). `callers` are pairs of object and offset: the call site of the function that contains the call, then
// the call site of its caller, and so on, at most `max_callers` pairs, as far as functions were compiled with hooks.
// They distinguish the callers of an MPI wrapper.
struct CallSite {
  static constexpr const char* event_name = "call_site";
  static constexpr std::size_t max_callers = 3;
  Number call_site = 0, object = 0, offset = 0;
  std::vector<Number> callers;
  static void visit_fields(auto& e, auto visit) {
    visit("call_site", e.call_site), visit("object", e.object), visit("offset", e.offset), visit("callers", e.callers);
  }
};

// The program calls the MPI function whose name is the text number `name`; the events of the call follow until `leave`.
// `delayed_ns` is the part of `since_ns` in which the rank was runnable but had no core, because another program ran
// there.
struct Enter {
  static constexpr const char* event_name = "enter";
  Number name = 0, call_site = 0, since_ns = 0, delayed_ns = 0;
  static void visit_fields(auto& e, auto visit) {
    visit("name", e.name), visit("call_site", e.call_site), visit("since_ns", e.since_ns);
    visit("delayed_ns", e.delayed_ns);
  }
};
struct Leave {
  static constexpr const char* event_name = "leave";
  Number since_ns = 0, delayed_ns = 0;
  static void visit_fields(auto& e, auto visit) { visit("since_ns", e.since_ns), visit("delayed_ns", e.delayed_ns); }
};

// A communicator of which the rank is a member, including MPI_COMM_WORLD and MPI_COMM_SELF. `context` is the same
// number on all members and unique in the run. `world_ranks` lists the members in rank order, by their ranks in
// MPI_COMM_WORLD; `remote_world_ranks` lists the remote group of an intercommunicator, and is empty otherwise.
// `sources` and `destinations` are the neighbours in the process topology of the communicator, from which neighbourhood
// collectives receive and to which they send. MPI_Comm_set_name repeats the event with the same numbers.
struct Communicator {
  static constexpr const char* event_name = "communicator";
  Number communicator = 0, context = 0;
  std::vector<Number> world_ranks, remote_world_ranks;
  std::string name;
  std::vector<std::int64_t> sources, destinations;  // ranks, or proc_null
  static void visit_fields(auto& e, auto visit) {
    visit("communicator", e.communicator), visit("context", e.context), visit("world", e.world_ranks),
        visit("remote", e.remote_world_ranks), visit("name", e.name), visit("sources", e.sources),
        visit("destinations", e.destinations);
  }
};

// A part of the bytes of one element of a datatype: `count` blocks of `bytes` bytes each, `stride_bytes` apart, the
// first block at `offset_bytes` from the address of the buffer. In Layout, elements are `extent_bytes` apart, and all
// blocks of an element together have `size_bytes` bytes.
struct LayoutRun {
  std::int64_t offset_bytes = 0;
  Number bytes = 0, count = 1;
  std::int64_t stride_bytes = 0;
  static void visit_fields(auto& e, auto visit) {
    visit("offset_bytes", e.offset_bytes), visit("bytes", e.bytes), visit("count", e.count),
        visit("stride_bytes", e.stride_bytes);
  }
};
struct Layout {
  static constexpr const char* event_name = "layout";
  Number layout = 0, size_bytes = 0;
  std::int64_t extent_bytes = 0;
  std::vector<LayoutRun> runs;
  std::string name;  // from MPI_Type_get_name, or the constructor from MPI_Type_get_envelope
  static void visit_fields(auto& e, auto visit) {
    visit("layout", e.layout), visit("size_bytes", e.size_bytes), visit("extent_bytes", e.extent_bytes),
        visit("runs", e.runs), visit("name", e.name);
  }
};

// `count` elements of a layout, starting at an address.
struct Data {
  Number address = 0, count = 0, layout = 0;
  static void visit_fields(auto& e, auto visit) {
    visit("address", e.address), visit("count", e.count), visit("layout", e.layout);
  }
};

enum class SendMode : std::uint8_t { standard, synchronous, buffered, ready };

// Requests are numbered from 1. A number is reused only after a `wait`, `looked` or `forget` event has ended the
// request.
struct Send {
  static constexpr const char* event_name = "send";
  Number request = 0;
  SendMode mode = SendMode::standard;
  Number communicator = 0;
  std::int64_t peer = 0, tag = 0;
  Data data;
  static void visit_fields(auto& e, auto visit) {
    visit("request", e.request), visit("mode", e.mode), visit("communicator", e.communicator), visit("peer", e.peer),
        visit("tag", e.tag), visit("data", e.data);
  }
};
struct Receive {
  static constexpr const char* event_name = "receive";
  Number request = 0;
  Number communicator = 0;
  std::int64_t peer = 0, tag = 0;  // may be `any`
  Data data;                       // the receive buffer
  bool notify_on_match = false;    // the rank waits until its live simulation reports the match
  static void visit_fields(auto& e, auto visit) {
    visit("request", e.request), visit("communicator", e.communicator), visit("peer", e.peer), visit("tag", e.tag),
        visit("data", e.data), visit("told", e.notify_on_match);
  }
};

// The message that a receive or probe matched. The event precedes the `wait`, `looked` or `probe` event of the MPI call
// that returned the message.
struct Outcome {
  static constexpr const char* event_name = "outcome";
  Number request = 0;  // request of the receive; 0 for a probe
  std::int64_t peer = 0, tag = 0;
  Number bytes = 0;
  static void visit_fields(auto& e, auto visit) {
    visit("request", e.request), visit("peer", e.peer), visit("tag", e.tag), visit("bytes", e.bytes);
  }
};

// The rank has waited for all of these requests; the requests are inactive afterwards.
struct RequestsCompleted {
  static constexpr const char* event_name = "wait";
  std::vector<Number> requests;
  static void visit_fields(auto& e, auto visit) { visit("requests", e.requests); }
};

// The rank has tested `requests`, of which `completed_requests` have completed and are inactive afterwards: Test,
// Testall, Testany, Testsome, Request_get_status. `is_blocking`: the call blocked until at least one request had
// completed (Waitany, Waitsome).
struct RequestsTested {
  static constexpr const char* event_name = "looked";
  std::vector<Number> requests, completed_requests;
  bool is_blocking = false;
  static void visit_fields(auto& e, auto visit) {
    visit("at", e.requests), visit("done", e.completed_requests), visit("waited", e.is_blocking);
  }
};

// MPI_Probe (`is_blocking`) or MPI_Iprobe. If `has_message`, the preceding `outcome` event describes the message.
// Mprobe and Improbe are recorded in the same way, and the receive of the matched message as a Receive with its source
// and tag.
struct Probe {
  static constexpr const char* event_name = "probe";
  Number communicator = 0;
  std::int64_t peer = 0, tag = 0;  // may be `any`
  bool is_blocking = false, has_message = false;
  static void visit_fields(auto& e, auto visit) {
    visit("communicator", e.communicator), visit("peer", e.peer), visit("tag", e.tag), visit("waited", e.is_blocking),
        visit("found", e.has_message);
  }
};

// MPI_Request_free: no wait completes this request.
struct RequestFreed {
  static constexpr const char* event_name = "forget";
  Number request = 0;
  static void visit_fields(auto& e, auto visit) { visit("request", e.request); }
};

// A collective operation with the arguments of the MPI call. Operations with lists (v, w) have one buffer per rank of
// the communicator or per neighbour in `send_buffers` and `receive_buffers`; the other operations have one buffer. On a
// rank that needs no send or receive buffer (not the root), the list is empty; for a broadcast, the root has its buffer
// in `send_buffers`, the other ranks in `receive_buffers`. `root` is 0 for operations without a root. `request` is 0
// for a blocking call.
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
  static constexpr const char* event_name = "collective";
  Number request = 0;
  CollectiveKind kind = CollectiveKind::barrier;
  Number communicator = 0, root = 0;
  // MPI_IN_PLACE: `send_buffers` is empty, and the input lies in `receive_buffers`, which has one buffer per rank for
  // reduce_scatter. For scatter and scatterv, `receive_buffers` of the root is empty instead, since its own block stays
  // in place.
  bool is_in_place = false;
  bool is_commutative = true;  // reductions: the operation is commutative
  std::vector<Data> send_buffers, receive_buffers;
  static void visit_fields(auto& e, auto visit) {
    visit("request", e.request), visit("kind", e.kind), visit("communicator", e.communicator), visit("root", e.root),
        visit("in_place", e.is_in_place), visit("commutes", e.is_commutative);
    visit("gives", e.send_buffers), visit("gets", e.receive_buffers);
  }
};

// The program called MPI_Pcontrol: the region whose name is the text number `name` begins (level > 0) or ends (level
// 0).
struct Region {
  static constexpr const char* event_name = "region";
  Number name = 0;
  std::int64_t level = 1;
  static void visit_fields(auto& e, auto visit) { visit("name", e.name), visit("level", e.level); }
};

// The program uses a feature that no event describes, so that it cannot be simulated; the text number `feature` names
// it.
struct Unsupported {
  static constexpr const char* event_name = "refused";
  Number feature = 0;
  static void visit_fields(auto& e, auto visit) { visit("what", e.feature); }
};

// The rank has ended: in MPI_Finalize, or at the end of a program without MPI.
struct End {
  static constexpr const char* event_name = "end";
  static void visit_fields(auto&, auto) {}
};

// All code locations that accessed memory or called MPI, as pairs of object and offset, and the paths of all objects.
// It is the last event of a stream that was closed, in a separate chunk, so that a reader can find it without reading
// the other chunks.
struct Sites {
  static constexpr const char* event_name = "sites";
  std::vector<std::string> objects;
  std::vector<Number> code_locations;
  static void visit_fields(auto& e, auto visit) { visit("objects", e.objects), visit("places", e.code_locations); }
};

// The rank begins to wait for all of these requests; a `wait` event records their completion. It is written before the
// rank blocks, so that a live simulation knows that the rank waits.
struct WaitStarted {
  static constexpr const char* event_name = "waits";
  std::vector<Number> requests;
  static void visit_fields(auto& e, auto visit) { visit("requests", e.requests); }
};

// The rank queries its live simulation about a nondeterministic outcome, and blocks until the reply (live_reply.hpp).
// The next event records the result: `looked` after a query about any, all or some of the requests, `probe` after a
// query about a probed message. The kind `simulated_time` queries the simulated time.
enum class QueryKind : std::uint8_t { any_request, all_requests, some_requests, probed_message, simulated_time };
struct Query {
  static constexpr const char* event_name = "ask";
  QueryKind kind = QueryKind::any_request;
  std::vector<Number> requests;  // the queried requests
  bool is_blocking = false;      // the rank blocks until a request has completed or a message has arrived
  Number communicator = 0;
  std::int64_t peer = 0, tag = 0;  // of the probed message; may be `any`
  static void visit_fields(auto& e, auto visit) {
    visit("question", e.kind), visit("at", e.requests), visit("waited", e.is_blocking);
    visit("communicator", e.communicator), visit("peer", e.peer), visit("tag", e.tag);
  }
  bool operator==(const Query&) const = default;
};

// Memory that no allocator provided, but that may hold message buffers: the variables of the executable and of the
// libraries loaded in MPI_Init, as pairs of address and number of bytes, and the stack of the thread that called
// MPI_Init.
struct StaticAndStackRanges {
  static constexpr const char* event_name = "unallocated";
  std::vector<Number> variables;
  Number stack = 0, stack_bytes = 0;
  static void visit_fields(auto& e, auto visit) {
    visit("variables", e.variables), visit("stack", e.stack), visit("stack_bytes", e.stack_bytes);
  }
};

// From now on, the loads at the code location `offset` of `object` have addresses that the last load at another code
// location has returned (dependence.hpp).
struct Dependence {
  static constexpr const char* event_name = "dependence";
  Number object = 0, offset = 0, on_object = 0, on_offset = 0;
  static void visit_fields(auto& e, auto visit) {
    visit("object", e.object), visit("offset", e.offset), visit("on_object", e.on_object);
    visit("on_offset", e.on_offset);
  }
};

// A stream denotes a kind of event by its index in this list.
using Event = std::variant<RankInfo, Text, Object, CallSite, Enter, Leave, Communicator, Layout, Send, Receive, Outcome,
                           RequestsCompleted, RequestsTested, Probe, RequestFreed, Collective, Region, Unsupported, End,
                           Sites, WaitStarted, Query, StaticAndStackRanges, Dependence>;

}  // namespace nearfield::stream

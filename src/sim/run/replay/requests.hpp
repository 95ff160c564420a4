// The requests of a replayed rank, by their numbers in the rank's stream, and its buffered sends.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "sim/mpi/collectives/on_group.hpp"
#include "sim/run/replay/definitions.hpp"
#include "sim/run/replay/first_reads.hpp"

namespace nearfield::sim::replay {

// The recorded result of an MPI call that tests requests or waits for one of several requests. The result differs in
// configurations in which a request that the call did not return (`needs_all`: all such requests) is ready before
// `limit`.
struct RecordedChoice {
  ConfigClock limit;
  bool needs_all = false;
  std::size_t num_open_requests = 0;  // requests that have not completed yet
  ConfigMask divergent_configs = 0, late_configs = 0;
  bool is_counted = true;

  // Must be called when one of the open requests completes, with the request's completion time. Counts the
  // configurations in which the result differs.
  void count_ready_request(RaceStatistics& races, const ConfigClock& ready_time);
};

class Requests {
 public:
  // `first_reads`, which must outlive this object, is notified of the data that the requests receive; nullptr: the data
  // is not tracked.
  Requests(Rank& rank, FirstReads* first_reads);

  // Stores a message under the request's number.
  void add_message(stream::Number request, Request message) { pending_request(request) = {message, {}, {}, {}}; }
  // Stores a receive under the request's number, which `call` has posted for this buffer.
  void add_receive(stream::Number request, Request message, const CallTimes::CallKey& call, const Buffer& buffer) {
    pending_request(request) = {message, {}, {}, PostedReceive{call, {buffer}}};
  }
  void add_choice(stream::Number request, std::shared_ptr<RecordedChoice> choice) {
    pending_request(request).choices.push_back(std::move(choice));
  }
  // Waits for the completion of the request. Returns its completion time.
  Task<ConfigClock> complete_request(stream::Number request) {
    return complete_request(std::exchange(pending_request(request), {}));
  }
  Task<> complete_requests(std::span<const stream::Number> requests);
  void forget_request(stream::Number request) {
    forgotten_requests_.push_back(std::exchange(pending_request(request), {}));
  }
  bool is_done(stream::Number request);
  // Copies the data to memory of the library and sends it from there.
  Task<> send_buffered(const Pattern& to, const Buffer& data);
  // Runs a collective to its end if it is blocking (request 0), otherwise begins it.
  Task<> run_or_begin_collective(stream::Number request, CommunicatorGroup& group, CollectiveArguments arguments,
                                 const CallTimes::CallKey& call);
  // Completes pending sends and collectives, as MPI_Finalize does, since other ranks may depend on them. Ignores
  // receives that the program did not complete.
  Task<> finalize();

 private:
  struct NonblockingCollective {
    CollectiveArguments arguments;
    std::unique_ptr<GroupCommunicator> comm;
    AsyncProgressTask task;
  };
  // The call that posted a receive or a nonblocking collective, and the buffers that get data.
  struct PostedReceive {
    CallTimes::CallKey call;
    std::vector<Buffer> buffers;
  };
  struct PendingRequest {
    Request message;
    std::unique_ptr<NonblockingCollective> collective;
    std::vector<std::shared_ptr<RecordedChoice>> choices;
    std::optional<PostedReceive> receive;
  };
  struct BufferedSend {
    Request request;
    Address copy;
    std::uint64_t bytes;
  };

  PendingRequest& pending_request(stream::Number request) {
    if (pending_requests_.size() <= request) pending_requests_.resize(request + 1);
    return pending_requests_[request];
  }
  Task<ConfigClock> complete_request(PendingRequest request);
  // Records that a collective has completed with these results.
  void record_results(const PostedReceive& receive);

  Rank& rank_;
  FirstReads* first_reads_;
  ScratchPool scratch_;  // buffers of collectives and of buffered sends
  std::vector<BufferedSend> buffered_sends_;
  std::vector<PendingRequest> forgotten_requests_;
  std::vector<PendingRequest> pending_requests_;  // by number
};

}  // namespace nearfield::sim::replay

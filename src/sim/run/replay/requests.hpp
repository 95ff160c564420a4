// The requests of a replayed rank, by their numbers in the rank's stream, and its buffered sends.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "sim/mpi/collectives/on_group.hpp"
#include "sim/run/replay/definitions.hpp"

namespace nearfield::sim::replay {

// The recorded result of an MPI call that tests requests or waits for one of several requests. The result differs in
// configurations in which a request that the call did not return (`of_all`: all such requests) is ready before `limit`.
struct RecordedChoice {
  ConfigClock limit;
  bool of_all = false;
  std::size_t open = 0;  // requests that have not completed yet
  ConfigMask divergent = 0, late = 0;
  bool counts = true;

  // Is called when one of the open requests completes, with the request's completion time: counts the configurations in
  // which the result differs.
  void count_ready_request(RaceStatistics& races, const ConfigClock& ready);
};

class Requests {
 public:
  explicit Requests(Rank& rank);

  // Stores a message under the request's number.
  void add_message(stream::Number request, Request message) { pending_request(request) = {message, {}, {}}; }
  void add_choice(stream::Number request, std::shared_ptr<RecordedChoice> choice) {
    pending_request(request).choices.push_back(std::move(choice));
  }
  // Waits for the completion of the request. Returns its completion time.
  Task<ConfigClock> complete_request(stream::Number request) {
    return complete_request(std::exchange(pending_request(request), {}));
  }
  Task<> complete_requests(std::span<const stream::Number> requests);
  void forget(stream::Number request) { forgotten_.push_back(std::exchange(pending_request(request), {})); }
  bool is_done(stream::Number request);
  // Copies the data to memory of the library and sends it from there.
  Task<> send_buffered(const Pattern& to, const Buffer& data);
  // Runs a blocking collective (request 0) to its end, or begins a nonblocking one.
  Task<> run_or_begin_collective(stream::Number request, CommunicatorGroup& group, CollectiveArguments arguments);
  // Completes pending sends and collectives, as MPI_Finalize does, since other ranks may depend on them. Ignores
  // receives that the program did not complete.
  Task<> finalize();

 private:
  struct NonblockingCollective {
    CollectiveArguments arguments;
    std::unique_ptr<GroupCommunicator> all;
    AsyncProgressTask task;
  };
  struct PendingRequest {
    Request message;
    std::unique_ptr<NonblockingCollective> collective;
    std::vector<std::shared_ptr<RecordedChoice>> choices;
  };
  struct BufferedSend {
    Request request;
    Address copy;
    std::uint64_t bytes;
  };

  PendingRequest& pending_request(stream::Number request) {
    if (pending_.size() <= request) pending_.resize(request + 1);
    return pending_[request];
  }
  Task<ConfigClock> complete_request(PendingRequest request);

  Rank& rank_;
  ScratchPool scratch_;  // buffers of collectives and of buffered sends
  std::vector<BufferedSend> buffered_;
  std::vector<PendingRequest> forgotten_;
  std::vector<PendingRequest> pending_;  // by number
};

}  // namespace nearfield::sim::replay

#include "preload/observe/mpi/live_client.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <deque>
#include <optional>

#include "preload/observe/mpi/collective_events.hpp"
#include "preload/observe/mpi/deferred_requests.hpp"
#include "preload/observe/mpi/wrapper.hpp"
#include "trace/stream/live_reply.hpp"

namespace nearfield::observe {
namespace {

constexpr int max_sleep_ms = 8;  // other ranks may need this rank's progress

struct Channel {
  std::vector<unsigned char> bytes;  // received and not parsed yet; begin with a reply
  std::deque<Words> replies;
};

Channel& channel() {
  static Channel& only = *new Channel;  // never destroyed, as in call.cpp
  return only;
}

[[noreturn]] void exit_without_simulation() {
  std::fprintf(stderr, "nearfield: the simulation has ended; so does this program, which waits for its answer\n");
  std::signal(SIGTERM, SIG_DFL);
  kill(getpid(), SIGTERM);
  _exit(1);
}

// Reads what has arrived; waits for at most this time.
void poll_socket(int milliseconds) {
  pollfd polled{detail::reply_socket, POLLIN, 0};
  if (poll(&polled, 1, milliseconds) <= 0) return;
  unsigned char buffer[4096];
  const auto count = read(detail::reply_socket, buffer, sizeof buffer);
  if (count < 0 && errno == EINTR) return;
  if (count <= 0) exit_without_simulation();
  auto& bytes = channel().bytes;
  bytes.insert(bytes.end(), buffer, buffer + count);
}

// Removes one complete reply from the received bytes. Returns it, or nothing.
std::optional<Words> take_reply() {
  constexpr std::size_t word = sizeof(std::int64_t);
  auto& bytes = channel().bytes;
  std::int64_t head[2];
  if (bytes.size() < sizeof head) return {};
  std::memcpy(head, bytes.data(), sizeof head);
  const std::size_t size = sizeof head + word * static_cast<std::size_t>(head[1]);
  if (bytes.size() < size) return {};
  Words words(size / word);
  std::memcpy(words.data(), bytes.data(), size);
  bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
  return words;
}

// Posts the receives whose messages are now known, and queues other replies.
void receive_replies(int milliseconds) {
  poll_socket(milliseconds);
  while (auto words = take_reply()) {
    if ((*words)[0] == static_cast<std::int64_t>(stream::ReplyKind::matched))
      post_deferred(static_cast<stream::Number>((*words)[2]), static_cast<int>((*words)[3]),
                    static_cast<int>((*words)[4]));
    else
      channel().replies.emplace_back(words->begin() + 2, words->end());
  }
}

// Drives the MPI library's progress for buffered sends: a receiver may wait for one inside the library, and the message
// that this rank waits for may come only after that.
void progress_mpi() {
  int flag = 0;
  PMPI(MPI_Iprobe)(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
}

}  // namespace

Words query(const stream::Ask& question) {
  record(question);
  flush();
  for (int sleep_ms = 1; channel().replies.empty(); sleep_ms = std::min(2 * sleep_ms, max_sleep_ms)) {
    receive_replies(sleep_ms);
    progress_mpi();
  }
  Words answer = std::move(channel().replies.front());
  channel().replies.pop_front();
  return answer;
}

void progress_until(const std::function<bool()>& done) {
  if (done()) return;
  flush();
  for (int sleep_ms = 0; !done(); sleep_ms = std::min(2 * sleep_ms + 1, max_sleep_ms)) {
    receive_replies(sleep_ms);
    progress_mpi();
  }
}

int wait_request(MPI_Request* request, MPI_Status* status) {
  int flag = 0, result = PMPI(MPI_Test)(request, &flag, status);
  if (flag || result != MPI_SUCCESS) return result;
  if (!has_deferred()) {
    flush();
    return PMPI(MPI_Wait)(request, status);
  }
  progress_until([&] {
    result = PMPI(MPI_Test)(request, &flag, status);
    return flag || result != MPI_SUCCESS;
  });
  return result;
}

void live_barrier(MPI_Comm comm) {
  if (!is_live()) return;
  record(events::barrier(comm));
  MPI_Request request;
  PMPI(MPI_Ibarrier)(comm, &request);
  wait_request(&request, MPI_STATUS_IGNORE);
}

}  // namespace nearfield::observe

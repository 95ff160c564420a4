#include "observe/mpi/asking.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <deque>
#include <optional>

#include "observe/mpi/collective_events.hpp"
#include "observe/mpi/held.hpp"
#include "observe/mpi/wrapper.hpp"
#include "stream/answer.hpp"

namespace nearfield::observe {
namespace {

constexpr int most_sleep_ms = 8;  // others may need this rank's progress meanwhile

struct Channel {
  std::vector<unsigned char> bytes;  // that came, from the beginning of an answer on
  std::deque<Words> answers;
};

Channel& channel() {
  static Channel& only = *new Channel;  // never destroyed, as in call.cpp
  return only;
}

[[noreturn]] void end_without_simulation() {
  std::fprintf(stderr, "nearfield: the simulation has ended; so does this program, which waits for its answer\n");
  std::signal(SIGTERM, SIG_DFL);
  kill(getpid(), SIGTERM);
  _exit(1);
}

// Reads what has come, and waits for it so long at most.
void listen_for(int milliseconds) {
  pollfd asked{detail::answers, POLLIN, 0};
  if (poll(&asked, 1, milliseconds) <= 0) return;
  unsigned char buffer[4096];
  const auto count = read(detail::answers, buffer, sizeof buffer);
  if (count < 0 && errno == EINTR) return;
  if (count <= 0) end_without_simulation();
  auto& bytes = channel().bytes;
  bytes.insert(bytes.end(), buffer, buffer + count);
}

// Takes one answer from what has come.
std::optional<Words> next_answer() {
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

// Begins the receives whose messages are known now, and keeps other answers.
void take_answers(int milliseconds) {
  listen_for(milliseconds);
  while (auto words = next_answer()) {
    if ((*words)[0] == static_cast<std::int64_t>(stream::Told::matched))
      begin_held(static_cast<stream::Number>((*words)[2]), static_cast<int>((*words)[3]),
                 static_cast<int>((*words)[4]));
    else
      channel().answers.emplace_back(words->begin() + 2, words->end());
  }
}

// Lets the MPI library go on with copies that are being sent: a rank that gets one may wait for it inside the library,
// where this rank's own message comes only after that.
void make_progress() {
  int flag = 0;
  PMPI(MPI_Iprobe)(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
}

}  // namespace

Words ask(const stream::Ask& question) {
  record(question);
  flush();
  for (int sleep_ms = 1; channel().answers.empty(); sleep_ms = std::min(2 * sleep_ms, most_sleep_ms)) {
    take_answers(sleep_ms);
    make_progress();
  }
  Words answer = std::move(channel().answers.front());
  channel().answers.pop_front();
  return answer;
}

void go_on_when(const std::function<bool()>& done) {
  if (done()) return;
  flush();
  for (int sleep_ms = 0; !done(); sleep_ms = std::min(2 * sleep_ms + 1, most_sleep_ms)) {
    take_answers(sleep_ms);
    make_progress();
  }
}

int wait_for(MPI_Request* request, MPI_Status* status) {
  int flag = 0, result = PMPI(MPI_Test)(request, &flag, status);
  if (flag || result != MPI_SUCCESS) return result;
  if (!any_unbegun()) {
    flush();
    return PMPI(MPI_Wait)(request, status);
  }
  go_on_when([&] {
    result = PMPI(MPI_Test)(request, &flag, status);
    return flag || result != MPI_SUCCESS;
  });
  return result;
}

void line_up(MPI_Comm comm) {
  if (!is_asking()) return;
  record(events::barrier(comm));
  MPI_Request request;
  PMPI(MPI_Ibarrier)(comm, &request);
  wait_for(&request, MPI_STATUS_IGNORE);
}

}  // namespace nearfield::observe

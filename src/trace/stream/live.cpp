#include "trace/stream/live.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <random>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "trace/stream/format.hpp"

namespace nearfield::stream {
namespace {

constexpr std::uint64_t max_unread = 64 << 20;  // of all ranks together; beyond it, ranks block unless a reader waits

[[noreturn]] void throw_errno(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

std::string new_socket_name() {
  std::random_device random;
  char name[64];
  std::snprintf(name, sizeof name, "nearfield-%d-%08x%08x", getpid(), random(), random());
  return name;
}

int listen_at(const std::string& name) {
  const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (listener < 0) throw_errno("socket");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());  // a leading zero byte makes the socket name abstract
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (bind(listener, reinterpret_cast<const sockaddr*>(&address), length) != 0 || listen(listener, SOMAXCONN) != 0)
    throw_errno("listen");
  return listener;
}

}  // namespace

// Reads the stream of one rank from the bytes that the rank has sent.
class LiveInput final : public Input {
 public:
  LiveInput(LiveStreams& live, std::shared_ptr<LiveStreams::Buffer> stream, std::uint64_t at)
      : streams_(live), stream_(std::move(stream)), at_(at) {}
  ~LiveInput() override {
    const LiveStreams::Lock lock(streams_.mutex_);
    stream_->needed_from.erase(this);
    streams_.free_consumed(*stream_);
  }
  void begin() { stream_->needed_from[this] = at_; }

  std::size_t read(void* to, std::size_t bytes) override {
    LiveStreams::Lock lock(streams_.mutex_);
    const auto there = [&] { return stream_->end() >= at_ + bytes || stream_->has_ended || streams_.closed_; };
    if (!there()) {
      ++streams_.waiting_readers_;
      streams_.wake_receiver();
      streams_.changed_.wait(lock, there);
      --streams_.waiting_readers_;
    }
    if (streams_.closed_) throw std::runtime_error("the simulation was ended");
    const std::size_t count = std::min<std::uint64_t>(bytes, stream_->end() - at_);
    std::memcpy(to, stream_->bytes.data() + (at_ - stream_->begin), count);
    at_ += count;
    stream_->max_read_position = std::max(stream_->max_read_position, at_);
    streams_.wake_receiver();
    return count;
  }
  bool seek(std::uint64_t) override { return false; }
  void release_before(std::uint64_t byte) override {
    const LiveStreams::Lock lock(streams_.mutex_);
    stream_->needed_from[this] = byte;
    streams_.free_consumed(*stream_);
  }
  std::unique_ptr<Input> open_at(std::uint64_t byte) const override {
    auto input = std::make_unique<LiveInput>(streams_, stream_, byte);
    const LiveStreams::Lock lock(streams_.mutex_);
    input->begin();
    return input;
  }
  std::string truncation_reason() const override { return "its process ended before the program did"; }

 private:
  LiveStreams& streams_;
  std::shared_ptr<LiveStreams::Buffer> stream_;
  std::uint64_t at_;
};

// ---- public functions

LiveStreams::LiveStreams() : name_(new_socket_name()) {
  listener_ = listen_at(name_);
  waker_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (waker_ < 0) throw_errno("eventfd");
  thread_ = std::thread([this] { run_receiver(); });
}

LiveStreams::~LiveStreams() {
  {
    const Lock lock(mutex_);
    stopped_ = closed_ = true;
  }
  wake_receiver();
  thread_.join();
  for (const Connection& one : connections_) ::close(one.socket);
  ::close(listener_);
  ::close(waker_);
}

void LiveStreams::save_to(const std::string& folder) {
  const Lock lock(mutex_);
  folder_ = folder;
}

std::string LiveStreams::save_error() const {
  const Lock lock(mutex_);
  return save_error_;
}

int LiveStreams::ranks() const {
  const Lock lock(mutex_);
  return ranks_ > 0 && by_rank_.size() == static_cast<std::size_t>(ranks_) ? ranks_ : 0;
}

bool LiveStreams::has_no_sender() const {
  const Lock lock(mutex_);
  return std::ranges::none_of(connections_,
                              [](const Connection& one) { return one.stream || !one.first_bytes.empty(); });
}

std::unique_ptr<Input> LiveStreams::open_input(int rank) {
  const Lock lock(mutex_);
  auto input = std::make_unique<LiveInput>(*this, by_rank_.at(rank), 0);
  input->begin();
  return input;
}

void LiveStreams::reply(int rank, const void* bytes, std::size_t count) {
  const auto* const from = static_cast<const unsigned char*>(bytes);
  const Lock lock(mutex_);
  for (Connection& one : connections_)
    if (one.rank == rank) one.unsent.insert(one.unsent.end(), from, from + count);
  wake_receiver();
}

void LiveStreams::read_until_eof() {
  const Lock lock(mutex_);
  reads_until_eof_ = true;
  wake_receiver();
}

void LiveStreams::discard_unread() {
  const Lock lock(mutex_);
  discards_ = true;
  wake_receiver();
}

void LiveStreams::close() {
  const Lock lock(mutex_);
  closed_ = true;
  changed_.notify_all();
  wake_receiver();
}

// ---- the receiving thread

void LiveStreams::wake_receiver() const {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(waker_, &one, sizeof one);
}

void LiveStreams::run_receiver() {
  std::vector<pollfd> polled;
  std::vector<Connection*> polled_connections;
  Lock lock(mutex_);
  while (!stopped_) {
    polled = {{listener_, POLLIN, 0}, {waker_, POLLIN, 0}};
    polled_connections.clear();
    for (Connection& one : connections_) {
      const short events =
          static_cast<short>((may_receive_from(one) ? POLLIN : 0) | (one.unsent.empty() ? 0 : POLLOUT));
      if (events == 0) continue;
      polled.push_back({one.socket, events, 0});
      polled_connections.push_back(&one);
    }
    lock.unlock();
    poll(polled.data(), polled.size(), -1);
    lock.lock();
    std::uint64_t woken = 0;
    if (polled[1].revents) [[maybe_unused]]
      const auto taken = ::read(waker_, &woken, sizeof woken);
    if (polled[0].revents) accept_connection();
    for (std::size_t i = 0; i < polled_connections.size(); ++i) {
      if (polled[i + 2].revents & POLLOUT) send(*polled_connections[i]);
      if (polled[i + 2].revents & (POLLIN | POLLHUP | POLLERR)) receive(*polled_connections[i]);
    }
    if (closed_)
      for (Connection& one : connections_) one.is_closing = true;
    for (const Connection& one : connections_)
      if (one.is_closing) ::close(one.socket);
    connections_.remove_if([](const Connection& one) { return one.is_closing; });
  }
}

// Accepts a connection. Other users of this host can see the socket, so connections by other users are closed.
void LiveStreams::accept_connection() {
  const int socket = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (socket < 0) return;
  ucred who{};
  socklen_t length = sizeof who;
  getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &length);
  if (closed_ || who.uid != geteuid()) {
    ::close(socket);
    return;
  }
  Connection& one = connections_.emplace_back();
  one.socket = socket;
  one.process = who.pid;
}

// Returns whether to receive from this connection. A rank that is not received from blocks once its socket is full. No
// rank may block before all ranks have connected, nor while a reader waits.
bool LiveStreams::may_receive_from(const Connection& one) const {
  const bool all_there = ranks_ > 0 && by_rank_.size() == static_cast<std::size_t>(ranks_);
  if (!one.stream || reads_until_eof_ || discards_ || waiting_readers_ > 0 || !all_there) return true;
  const std::uint64_t unread = one.stream->end() - std::min(one.stream->max_read_position, one.stream->end());
  return unread < max_unread / static_cast<std::uint64_t>(ranks_);
}

void LiveStreams::receive(Connection& from) {
  unsigned char bytes[1 << 16];
  const auto count = recv(from.socket, bytes, sizeof bytes, 0);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count <= 0) {
    if (from.stream) from.stream->has_ended = true;
    from.is_closing = true;
    changed_.notify_all();
  } else if (from.stream) {
    append_bytes(*from.stream, bytes, static_cast<std::size_t>(count));
  } else {
    from.first_bytes.insert(from.first_bytes.end(), bytes, bytes + count);
    identify_connection(from);
  }
}

void LiveStreams::send(Connection& to) {
  const auto count = ::send(to.socket, to.unsent.data(), to.unsent.size(), MSG_NOSIGNAL);
  if (count > 0) to.unsent.erase(to.unsent.begin(), to.unsent.begin() + count);
  if (count < 0 && errno != EAGAIN && errno != EINTR) to.unsent.clear();  // the rank has ended
}

// Identifies a connection by its first bytes: a stream begins with the header of a stream file; a connection for
// replies begins with rank_magic, the rank and the number of ranks.
void LiveStreams::identify_connection(Connection& one) {
  constexpr std::size_t magic = sizeof file_magic;
  if (one.rank >= 0 || one.first_bytes.size() < magic) return;
  if (std::memcmp(one.first_bytes.data(), file_magic, magic) == 0) {
    one.stream = by_process_[one.process] = std::make_shared<Buffer>();
    const auto first_bytes = std::exchange(one.first_bytes, {});
    append_bytes(*one.stream, first_bytes.data(), first_bytes.size());
  } else if (std::memcmp(one.first_bytes.data(), rank_magic, magic) != 0) {
    one.is_closing = true;
  } else if (one.first_bytes.size() >= magic + 8) {
    std::int32_t numbers[2];
    std::memcpy(numbers, one.first_bytes.data() + magic, sizeof numbers);
    one.first_bytes.clear();
    assign_rank(one, numbers[0], numbers[1]);
  }
}

// Assigns a rank to a process. Closes the connections of a second program under the same command, which must not
// replace the first.
void LiveStreams::assign_rank(Connection& listener, int rank, int ranks) {
  const auto found = by_process_.find(listener.process);
  if (found == by_process_.end() || by_rank_.contains(rank) || (ranks_ > 0 && ranks_ != ranks)) {
    for (Connection& one : connections_) one.is_closing = one.is_closing || one.process == listener.process;
    return;
  }
  listener.rank = rank;
  ranks_ = ranks;
  by_rank_[rank] = found->second;
  if (!folder_.empty()) open_file(*found->second, rank);
  changed_.notify_all();
}

void LiveStreams::append_bytes(Buffer& stream, const unsigned char* bytes, std::size_t count) {
  write_file(stream, bytes, count);
  stream.bytes.insert(stream.bytes.end(), bytes, bytes + count);
  free_consumed(stream);
  changed_.notify_all();
}

void LiveStreams::free_consumed(Buffer& stream) const {
  std::uint64_t until = discards_ ? stream.end() : stream.begin;
  if (!stream.needed_from.empty()) {
    until = stream.end();
    for (const auto& [input, from] : stream.needed_from) until = std::min(until, from);
  }
  const std::uint64_t count = until - std::min(until, stream.begin);
  if (count == 0 || (count < stream.bytes.size() / 2 && count < 1 << 20)) return;
  stream.bytes.erase(stream.bytes.begin(), stream.bytes.begin() + static_cast<std::ptrdiff_t>(count));
  stream.begin += count;
}

// ---- files

void LiveStreams::open_file(Buffer& stream, int rank) {
  const std::string name = folder_ + "/rank-" + std::to_string(rank) + ".nfs";
  stream.file.reset(std::fopen(name.c_str(), "wb"));
  if (!stream.file) save_error_ = name + ": " + std::strerror(errno);
  write_file(stream, stream.bytes.data(), stream.bytes.size());
}

void LiveStreams::write_file(Buffer& stream, const unsigned char* bytes, std::size_t count) {
  if (!stream.file) return;
  if (std::fwrite(bytes, 1, count, stream.file.get()) == count && std::fflush(stream.file.get()) == 0) return;
  save_error_ = std::string("the streams are not whole: ") + std::strerror(errno);
  stream.file.reset();
}

}  // namespace nearfield::stream

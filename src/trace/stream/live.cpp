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

// of all ranks together; beyond it, ranks block unless a reader waits
constexpr std::uint64_t max_unread_bytes = 64 << 20;

[[noreturn]] void throw_errno(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

std::string new_socket_name() {
  std::random_device random;
  char name[64];
  std::snprintf(name, sizeof name, "nearfield-%d-%08x%08x", getpid(), random(), random());
  return name;
}

int create_listener(const std::string& name) {
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
class LiveInput final : public StreamInput {
 public:
  LiveInput(LiveStreams& live, std::shared_ptr<LiveStreams::StreamBuffer> stream, std::uint64_t at)
      : live_streams_(live), stream_(std::move(stream)), position_(at) {}
  ~LiveInput() override {
    const LiveStreams::Lock lock(live_streams_.mutex_);
    stream_->first_needed_by_input.erase(this);
    live_streams_.free_consumed_bytes(*stream_);
  }
  void register_with_stream() { stream_->first_needed_by_input[this] = position_; }

  std::size_t read(void* to, std::size_t bytes) override {
    LiveStreams::Lock lock(live_streams_.mutex_);
    const auto is_available = [&] {
      return stream_->end() >= position_ + bytes || stream_->has_ended || live_streams_.is_closed_;
    };
    if (!is_available()) {
      ++live_streams_.num_waiting_readers_;
      live_streams_.wake_receiver();
      live_streams_.state_changed_.wait(lock, is_available);
      --live_streams_.num_waiting_readers_;
    }
    if (live_streams_.is_closed_) throw std::runtime_error("the simulation was ended");
    const std::size_t count = std::min<std::uint64_t>(bytes, stream_->end() - position_);
    std::memcpy(to, stream_->bytes.data() + (position_ - stream_->begin_position), count);
    position_ += count;
    stream_->max_read_position = std::max(stream_->max_read_position, position_);
    live_streams_.wake_receiver();
    return count;
  }
  bool seek(std::uint64_t) override { return false; }
  void release_before(std::uint64_t byte) override {
    const LiveStreams::Lock lock(live_streams_.mutex_);
    stream_->first_needed_by_input[this] = byte;
    live_streams_.free_consumed_bytes(*stream_);
  }
  std::unique_ptr<StreamInput> open_second_input_at(std::uint64_t byte) const override {
    auto input = std::make_unique<LiveInput>(live_streams_, stream_, byte);
    const LiveStreams::Lock lock(live_streams_.mutex_);
    input->register_with_stream();
    return input;
  }
  std::string truncation_reason() const override { return "its process ended before the program did"; }

 private:
  LiveStreams& live_streams_;
  std::shared_ptr<LiveStreams::StreamBuffer> stream_;
  std::uint64_t position_;
};

// ---- public functions

LiveStreams::LiveStreams() : socket_name_(new_socket_name()) {
  listening_socket_ = create_listener(socket_name_);
  wake_event_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_event_fd_ < 0) throw_errno("eventfd");
  receiver_thread_ = std::thread([this] { run_receiver(); });
}

LiveStreams::~LiveStreams() {
  {
    const Lock lock(mutex_);
    is_stopped_ = is_closed_ = true;
  }
  wake_receiver();
  receiver_thread_.join();
  for (const Connection& connection : connections_) ::close(connection.socket);
  ::close(listening_socket_);
  ::close(wake_event_fd_);
}

void LiveStreams::save_to(const std::string& folder) {
  const Lock lock(mutex_);
  folder_ = folder;
}

std::string LiveStreams::save_error() const {
  const Lock lock(mutex_);
  return save_error_;
}

int LiveStreams::num_ranks() const {
  const Lock lock(mutex_);
  return num_ranks_ > 0 && stream_by_rank_.size() == static_cast<std::size_t>(num_ranks_) ? num_ranks_ : 0;
}

bool LiveStreams::has_no_sender() const {
  const Lock lock(mutex_);
  return std::ranges::none_of(
      connections_, [](const Connection& connection) { return connection.stream || !connection.first_bytes.empty(); });
}

std::unique_ptr<StreamInput> LiveStreams::open_input(int rank) {
  const Lock lock(mutex_);
  auto input = std::make_unique<LiveInput>(*this, stream_by_rank_.at(rank), 0);
  input->register_with_stream();
  return input;
}

void LiveStreams::queue_reply(int rank, const void* bytes, std::size_t count) {
  const auto* const from = static_cast<const unsigned char*>(bytes);
  const Lock lock(mutex_);
  for (Connection& connection : connections_)
    if (connection.rank == rank)
      connection.unsent_reply_bytes.insert(connection.unsent_reply_bytes.end(), from, from + count);
  wake_receiver();
}

void LiveStreams::read_until_eof() {
  const Lock lock(mutex_);
  reads_until_eof_ = true;
  wake_receiver();
}

void LiveStreams::discard_unread() {
  const Lock lock(mutex_);
  discards_unread_ = true;
  wake_receiver();
}

void LiveStreams::close_connections() {
  const Lock lock(mutex_);
  is_closed_ = true;
  state_changed_.notify_all();
  wake_receiver();
}

// ---- the receiving thread

void LiveStreams::wake_receiver() const {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(wake_event_fd_, &one, sizeof one);
}

void LiveStreams::run_receiver() {
  std::vector<pollfd> polled;
  std::vector<Connection*> polled_connections;
  Lock lock(mutex_);
  while (!is_stopped_) {
    polled = {{listening_socket_, POLLIN, 0}, {wake_event_fd_, POLLIN, 0}};
    polled_connections.clear();
    for (Connection& connection : connections_) {
      const short events = static_cast<short>((may_receive_from(connection) ? POLLIN : 0) |
                                              (connection.unsent_reply_bytes.empty() ? 0 : POLLOUT));
      if (events == 0) continue;
      polled.push_back({connection.socket, events, 0});
      polled_connections.push_back(&connection);
    }
    lock.unlock();
    poll(polled.data(), polled.size(), -1);
    lock.lock();
    std::uint64_t woken = 0;
    if (polled[1].revents) [[maybe_unused]]
      const auto taken = ::read(wake_event_fd_, &woken, sizeof woken);
    if (polled[0].revents) accept_connection();
    for (std::size_t i = 0; i < polled_connections.size(); ++i) {
      if (polled[i + 2].revents & POLLOUT) send_replies(*polled_connections[i]);
      if (polled[i + 2].revents & (POLLIN | POLLHUP | POLLERR)) receive_from(*polled_connections[i]);
    }
    if (is_closed_)
      for (Connection& connection : connections_) connection.is_closing = true;
    for (const Connection& connection : connections_)
      if (connection.is_closing) ::close(connection.socket);
    connections_.remove_if([](const Connection& connection) { return connection.is_closing; });
  }
}

// Accepts a connection. Other users of this host can see the socket, so connections by other users are closed.
void LiveStreams::accept_connection() {
  const int socket = accept4(listening_socket_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (socket < 0) return;
  ucred credentials{};
  socklen_t length = sizeof credentials;
  getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length);
  if (is_closed_ || credentials.uid != geteuid()) {
    ::close(socket);
    return;
  }
  Connection& connection = connections_.emplace_back();
  connection.socket = socket;
  connection.process_id = credentials.pid;
}

// Returns whether to receive from this connection. A rank from which nothing is received blocks once its socket is
// full. No rank may block before all ranks have connected, nor while a reader waits.
bool LiveStreams::may_receive_from(const Connection& connection) const {
  const bool all_there = num_ranks_ > 0 && stream_by_rank_.size() == static_cast<std::size_t>(num_ranks_);
  if (!connection.stream || reads_until_eof_ || discards_unread_ || num_waiting_readers_ > 0 || !all_there) return true;
  const std::uint64_t unread =
      connection.stream->end() - std::min(connection.stream->max_read_position, connection.stream->end());
  return unread < max_unread_bytes / static_cast<std::uint64_t>(num_ranks_);
}

void LiveStreams::receive_from(Connection& connection) {
  unsigned char bytes[1 << 16];
  const auto count = recv(connection.socket, bytes, sizeof bytes, 0);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count <= 0) {
    if (connection.stream) connection.stream->has_ended = true;
    connection.is_closing = true;
    state_changed_.notify_all();
  } else if (connection.stream) {
    append_bytes(*connection.stream, bytes, static_cast<std::size_t>(count));
  } else {
    connection.first_bytes.insert(connection.first_bytes.end(), bytes, bytes + count);
    identify_connection(connection);
  }
}

void LiveStreams::send_replies(Connection& connection) {
  const auto count = ::send(connection.socket, connection.unsent_reply_bytes.data(),
                            connection.unsent_reply_bytes.size(), MSG_NOSIGNAL);
  if (count > 0)
    connection.unsent_reply_bytes.erase(connection.unsent_reply_bytes.begin(),
                                        connection.unsent_reply_bytes.begin() + count);
  if (count < 0 && errno != EAGAIN && errno != EINTR) connection.unsent_reply_bytes.clear();  // the rank has ended
}

// Identifies a connection by its first bytes: a stream begins with the header of a stream file; a connection for
// replies begins with reply_magic, the rank and the number of ranks.
void LiveStreams::identify_connection(Connection& connection) {
  constexpr std::size_t magic = sizeof file_magic;
  if (connection.rank >= 0 || connection.first_bytes.size() < magic) return;
  if (std::memcmp(connection.first_bytes.data(), file_magic, magic) == 0) {
    connection.stream = stream_by_process_[connection.process_id] = std::make_shared<StreamBuffer>();
    const auto first_bytes = std::exchange(connection.first_bytes, {});
    append_bytes(*connection.stream, first_bytes.data(), first_bytes.size());
  } else if (std::memcmp(connection.first_bytes.data(), reply_magic, magic) != 0) {
    connection.is_closing = true;
  } else if (connection.first_bytes.size() >= magic + 8) {
    std::int32_t numbers[2];
    std::memcpy(numbers, connection.first_bytes.data() + magic, sizeof numbers);
    connection.first_bytes.clear();
    assign_rank(connection, numbers[0], numbers[1]);
  }
}

// Assigns a rank to a process. Closes the connections of a second program under the same command, which must not
// replace the first.
void LiveStreams::assign_rank(Connection& connection, int rank, int ranks) {
  const auto found = stream_by_process_.find(connection.process_id);
  if (found == stream_by_process_.end() || stream_by_rank_.contains(rank) || (num_ranks_ > 0 && num_ranks_ != ranks)) {
    for (Connection& other : connections_)
      other.is_closing = other.is_closing || other.process_id == connection.process_id;
    return;
  }
  connection.rank = rank;
  num_ranks_ = ranks;
  stream_by_rank_[rank] = found->second;
  if (!folder_.empty()) open_stream_file(*found->second, rank);
  state_changed_.notify_all();
}

void LiveStreams::append_bytes(StreamBuffer& stream, const unsigned char* bytes, std::size_t count) {
  write_to_file(stream, bytes, count);
  stream.bytes.insert(stream.bytes.end(), bytes, bytes + count);
  free_consumed_bytes(stream);
  state_changed_.notify_all();
}

void LiveStreams::free_consumed_bytes(StreamBuffer& stream) const {
  std::uint64_t until = discards_unread_ ? stream.end() : stream.begin_position;
  if (!stream.first_needed_by_input.empty()) {
    until = stream.end();
    for (const auto& [input, from] : stream.first_needed_by_input) until = std::min(until, from);
  }
  const std::uint64_t count = until - std::min(until, stream.begin_position);
  if (count == 0 || (count < stream.bytes.size() / 2 && count < 1 << 20)) return;
  stream.bytes.erase(stream.bytes.begin(), stream.bytes.begin() + static_cast<std::ptrdiff_t>(count));
  stream.begin_position += count;
}

// ---- files

void LiveStreams::open_stream_file(StreamBuffer& stream, int rank) {
  const std::string name = folder_ + "/rank-" + std::to_string(rank) + ".nfs";
  stream.file.reset(std::fopen(name.c_str(), "wb"));
  if (!stream.file) save_error_ = name + ": " + std::strerror(errno);
  write_to_file(stream, stream.bytes.data(), stream.bytes.size());
}

void LiveStreams::write_to_file(StreamBuffer& stream, const unsigned char* bytes, std::size_t count) {
  if (!stream.file) return;
  if (std::fwrite(bytes, 1, count, stream.file.get()) == count && std::fflush(stream.file.get()) == 0) return;
  save_error_ = std::string("the streams are not whole: ") + std::strerror(errno);
  stream.file.reset();
}

}  // namespace nearfield::stream

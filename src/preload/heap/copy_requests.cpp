#include "preload/heap/copy_requests.hpp"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "preload/heap/copy_protocol.hpp"
#include "preload/heap/copy_service.hpp"
#include "preload/heap/pieces.hpp"
#include "preload/heap/start.hpp"

namespace nearfield::heap {
namespace {

struct PeerConnection {
  std::atomic<pid_t> pid{0};  // 0: a free entry
  int socket = -1;
  pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
};

constinit PeerConnection connections[max_copy_peers];
constinit std::atomic<bool> has_ever_connected{false};  // whether this process has ever used an entry
constinit std::atomic<std::size_t> num_owner_copies{0}, copied_bytes{0}, num_bounce_copies{0};

// Returns the entry of a peer, a new one at the first call; nullptr if the table is full.
PeerConnection* find_or_claim_entry(pid_t pid) {
  for (int i = 0; i < max_copy_peers; ++i) {
    PeerConnection& entry = connections[(static_cast<unsigned>(pid) + static_cast<unsigned>(i)) % max_copy_peers];
    pid_t claimed_by = 0;
    if (entry.pid.compare_exchange_strong(claimed_by, pid) || claimed_by == pid) return &entry;
  }
  return nullptr;
}

int connect_to(pid_t pid) {
  sockaddr_un address;
  const socklen_t length = write_socket_address(address, pid);
  const int socket = open_socket(0);
  if (socket < 0) return -1;
  int error;
  do error = connect(socket, reinterpret_cast<sockaddr*>(&address), length);
  while (error != 0 && errno == EINTR);
  if (error == 0 && is_trusted_peer(socket, pid)) return socket;
  close(socket);
  return -1;
}

// Locks the connection to a peer for the duration of a request, and connects to the peer if necessary.
class LockedConnection {
 public:
  explicit LockedConnection(pid_t pid) : connection_(find_or_claim_entry(pid)) {
    if (!connection_) return;
    pthread_mutex_lock(&connection_->lock);
    has_ever_connected.store(true, std::memory_order_relaxed);
    if (connection_->socket < 0) connection_->socket = connect_to(pid);
  }
  ~LockedConnection() {
    if (connection_) pthread_mutex_unlock(&connection_->lock);
  }
  LockedConnection(const LockedConnection&) = delete;
  LockedConnection& operator=(const LockedConnection&) = delete;

  bool is_open() const { return connection_ && connection_->socket >= 0; }
  int socket() const { return connection_->socket; }
  bool send_request(SocketOperation operation, std::uint64_t address, std::uint64_t bytes) {
    SocketRequest request{{}, operation, address, bytes};
    std::memcpy(request.key, settings().job_key, sizeof request.key);
    return send_packet(socket(), &request, sizeof request, nullptr, 0) == sizeof request || close_after_error(ESRCH);
  }
  // Closes the connection, whose state is unknown after an error. Returns false.
  bool close_after_error(int error) {
    close(connection_->socket);
    connection_->socket = -1;
    errno = error;
    return false;
  }

 private:
  PeerConnection* connection_;
};

// Reads `bytes` contiguous bytes of the peer's memory. Returns whether all of them have arrived; if not, sets errno.
bool read_contiguous(LockedConnection& connection, char* to, std::uint64_t from, std::size_t bytes) {
  if (!connection.send_request(SocketOperation::read, from, bytes)) return false;
  for (std::size_t done = 0; done < bytes;) {
    SocketReply reply{};
    const ssize_t length =
        receive_packet(connection.socket(), &reply, sizeof reply, to + done, bytes_of_next_packet(bytes - done));
    if (length < static_cast<ssize_t>(sizeof reply))
      return connection.close_after_error(length < 0 && errno == EFAULT ? EFAULT : ESRCH);
    if (reply.error) {
      errno = reply.error;
      return false;
    }
    if (static_cast<std::size_t>(length) != sizeof reply + reply.bytes) return connection.close_after_error(EIO);
    done += reply.bytes;
  }
  return true;
}

bool write_contiguous(LockedConnection& connection, char* from, std::uint64_t to, std::size_t bytes) {
  if (!connection.send_request(SocketOperation::write, to, bytes)) return false;
  for (std::size_t done = 0; done < bytes; done += bytes_of_next_packet(bytes - done))
    if (send_packet(connection.socket(), from + done, bytes_of_next_packet(bytes - done), nullptr, 0) < 0)
      return connection.close_after_error(errno == EFAULT ? EFAULT : ESRCH);
  SocketReply reply{};
  if (receive_packet(connection.socket(), &reply, sizeof reply, nullptr, 0) != sizeof reply)
    return connection.close_after_error(ESRCH);
  errno = reply.error;
  return reply.error == 0;
}

}  // namespace

ssize_t copy_by_owner(bool is_write, pid_t pid, const iovec* local, unsigned long local_count, const iovec* remote,
                      unsigned long remote_count) {
  LockedConnection connection(pid);
  if (!connection.is_open()) {
    errno = EPERM;
    return -1;
  }
  std::size_t done = 0;
  for (IovecPosition local_position(local, local_count), remote_position(remote, remote_count);
       !local_position.is_at_end() && !remote_position.is_at_end();) {
    const std::size_t bytes = min_contiguous_bytes(local_position, remote_position);
    const auto address = reinterpret_cast<std::uintptr_t>(remote_position.address());
    if (!(is_write ? write_contiguous : read_contiguous)(connection, local_position.address(), address, bytes))
      return done ? static_cast<ssize_t>(done) : -1;
    done += bytes;
    local_position.advance(bytes);
    remote_position.advance(bytes);
  }
  count_owner_copy(done);
  return static_cast<ssize_t>(done);
}

void count_bounce_copy(std::size_t bytes) {
  num_bounce_copies.fetch_add(1, std::memory_order_relaxed);
  count_owner_copy(bytes);
}

void count_owner_copy(std::size_t bytes) {
  num_owner_copies.fetch_add(1, std::memory_order_relaxed);
  copied_bytes.fetch_add(bytes, std::memory_order_relaxed);
}

OwnerCopies owner_copy_counts() { return {num_owner_copies.load(), copied_bytes.load(), num_bounce_copies.load()}; }

bool peer_serves_copies(pid_t pid) { return serves_copies() && LockedConnection(pid).is_open(); }

int request_heap_file(pid_t pid) {
  LockedConnection connection(pid);
  if (!connection.is_open() || !connection.send_request(SocketOperation::get_heap_file, 0, 0)) return -1;
  int file = -1;
  if (!receive_file(connection.socket(), file)) connection.close_after_error(ESRCH);
  return file;
}

void reset_copy_requests() {
  // a write to the table would make the kernel copy its pages in the child
  if (!has_ever_connected.exchange(false)) return;
  for (PeerConnection& connection : connections) {
    if (connection.socket >= 0) close(connection.socket);
    connection.socket = -1;
    connection.pid.store(0);
    connection.lock = PTHREAD_MUTEX_INITIALIZER;
  }
}

}  // namespace nearfield::heap

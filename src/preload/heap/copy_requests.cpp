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

struct Connection {
  std::atomic<pid_t> pid{0};  // 0: a free entry
  int socket = -1;
  pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
};

constinit Connection connections[max_copy_peers];
constinit std::atomic<bool> is_connected{false};  // whether this process has ever used an entry
constinit std::atomic<std::size_t> copy_count{0}, copied_bytes{0}, bounce_count{0};

// Returns the entry of a peer, a new one at the first call; nullptr if the table is full.
Connection* find_or_claim_entry(pid_t pid) {
  for (int i = 0; i < max_copy_peers; ++i) {
    Connection& entry = connections[(static_cast<unsigned>(pid) + static_cast<unsigned>(i)) % max_copy_peers];
    pid_t found = 0;
    if (entry.pid.compare_exchange_strong(found, pid) || found == pid) return &entry;
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
    is_connected.store(true, std::memory_order_relaxed);
    if (connection_->socket < 0) connection_->socket = connect_to(pid);
  }
  ~LockedConnection() {
    if (connection_) pthread_mutex_unlock(&connection_->lock);
  }
  LockedConnection(const LockedConnection&) = delete;
  LockedConnection& operator=(const LockedConnection&) = delete;

  bool is_open() const { return connection_ && connection_->socket >= 0; }
  int socket() const { return connection_->socket; }
  bool send(SocketOperation operation, std::uint64_t address, std::uint64_t bytes) {
    SocketRequest request{{}, operation, address, bytes};
    std::memcpy(request.key, settings().key, sizeof request.key);
    return send_packet(socket(), &request, sizeof request, nullptr, 0) == sizeof request || fail(ESRCH);
  }
  // Closes the connection, whose state is unknown after an error. Returns false.
  bool fail(int error) {
    close(connection_->socket);
    connection_->socket = -1;
    errno = error;
    return false;
  }

 private:
  Connection* connection_;
};

// Reads `bytes` contiguous bytes of the peer's memory. Returns whether all of them have arrived; if not, sets errno.
bool read_contiguous(LockedConnection& connection, char* to, std::uint64_t from, std::size_t bytes) {
  if (!connection.send(SocketOperation::read, from, bytes)) return false;
  for (std::size_t done = 0; done < bytes;) {
    SocketReply reply{};
    const ssize_t length =
        receive_packet(connection.socket(), &reply, sizeof reply, to + done, next_packet_bytes(bytes - done));
    if (length < static_cast<ssize_t>(sizeof reply))
      return connection.fail(length < 0 && errno == EFAULT ? EFAULT : ESRCH);
    if (reply.error) {
      errno = reply.error;
      return false;
    }
    if (static_cast<std::size_t>(length) != sizeof reply + reply.bytes) return connection.fail(EIO);
    done += reply.bytes;
  }
  return true;
}

bool write_contiguous(LockedConnection& connection, char* from, std::uint64_t to, std::size_t bytes) {
  if (!connection.send(SocketOperation::write, to, bytes)) return false;
  for (std::size_t done = 0; done < bytes; done += next_packet_bytes(bytes - done))
    if (send_packet(connection.socket(), from + done, next_packet_bytes(bytes - done), nullptr, 0) < 0)
      return connection.fail(errno == EFAULT ? EFAULT : ESRCH);
  SocketReply reply{};
  if (receive_packet(connection.socket(), &reply, sizeof reply, nullptr, 0) != sizeof reply)
    return connection.fail(ESRCH);
  errno = reply.error;
  return reply.error == 0;
}

}  // namespace

ssize_t copy_by_owner(bool writes, pid_t pid, const iovec* local, unsigned long local_count, const iovec* remote,
                      unsigned long remote_count) {
  LockedConnection connection(pid);
  if (!connection.is_open()) {
    errno = EPERM;
    return -1;
  }
  std::size_t done = 0;
  for (IovecPosition here(local, local_count), there(remote, remote_count); !here.is_at_end() && !there.is_at_end();) {
    const std::size_t bytes = min_contiguous_bytes(here, there);
    const auto address = reinterpret_cast<std::uintptr_t>(there.at());
    if (!(writes ? write_contiguous : read_contiguous)(connection, here.at(), address, bytes))
      return done ? static_cast<ssize_t>(done) : -1;
    done += bytes;
    here.advance(bytes);
    there.advance(bytes);
  }
  count_owner_copy(done);
  return static_cast<ssize_t>(done);
}

void count_bounce(std::size_t bytes) {
  bounce_count.fetch_add(1, std::memory_order_relaxed);
  count_owner_copy(bytes);
}

void count_owner_copy(std::size_t bytes) {
  copy_count.fetch_add(1, std::memory_order_relaxed);
  copied_bytes.fetch_add(bytes, std::memory_order_relaxed);
}

OwnerCopies owner_copies() { return {copy_count.load(), copied_bytes.load(), bounce_count.load()}; }

bool peer_serves_copies(pid_t pid) { return serves_copies() && LockedConnection(pid).is_open(); }

int request_heap_file(pid_t pid) {
  LockedConnection connection(pid);
  if (!connection.is_open() || !connection.send(SocketOperation::file, 0, 0)) return -1;
  int file = -1;
  if (!receive_file(connection.socket(), file)) connection.fail(ESRCH);
  return file;
}

void reset_copy_requests() {
  if (!is_connected.exchange(false)) return;  // a write to the table would make the kernel copy its pages in the child
  for (Connection& connection : connections) {
    if (connection.socket >= 0) close(connection.socket);
    connection.socket = -1;
    connection.pid.store(0);
    connection.lock = PTHREAD_MUTEX_INITIALIZER;
  }
}

}  // namespace nearfield::heap

#include "preload/heap/copy_service.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "preload/heap/kernel_call.hpp"
#include "preload/heap/sharing.hpp"
#include "preload/heap/start.hpp"

namespace nearfield::heap {
namespace {

constexpr std::size_t packet_bytes = std::size_t{64} << 10;  // with a reply before them, they fit one socket buffer
constexpr int max_peers = 4096, max_events = 16;
constexpr std::size_t stack_bytes = std::size_t{256} << 10;

enum class Operation : std::uint32_t { read, write, file };

struct Request {
  char key[Settings::key_bytes];
  Operation operation;
  std::uint64_t address, bytes;
};

// Precedes the data of a packet that is read, and answers a request to write and one for the file.
struct Reply {
  std::int32_t error;  // a number of errno; 0: success
  std::uint32_t bytes;
};

// ---- sockets

// Returns the length of the address of a process's socket. The first byte of an abstract name is zero.
socklen_t write_address(sockaddr_un& address, pid_t pid) {
  address = {};
  address.sun_family = AF_UNIX;
  const int length = std::snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "nearfield-heap-%u-%ld",
                                   static_cast<unsigned>(geteuid()), static_cast<long>(pid));
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + static_cast<std::size_t>(length));
}

int open_socket(int flags) { return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0); }

// Returns whether the process at the other end is of this user and, unless `pid` is 0, this process.
bool is_trusted(int socket, pid_t pid) {
  ucred peer{};
  socklen_t length = sizeof peer;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) return false;
  return peer.uid == geteuid() && (pid == 0 || peer.pid == pid);
}

// Sends or receives one packet of two parts, the second of which may be empty. Returns its length, 0 at the end of the
// connection, or -1.
template <typename F>
ssize_t transfer(F call, int socket, void* first, std::size_t first_bytes, void* second, std::size_t second_bytes,
                 int flags) {
  iovec parts[] = {{first, first_bytes}, {second, second_bytes}};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = second_bytes ? 2 : 1;
  ssize_t length;
  do length = call(socket, &message, flags);
  while (length < 0 && errno == EINTR);
  return length;
}

ssize_t send_packet(int socket, void* first, std::size_t first_bytes, void* second, std::size_t second_bytes) {
  return transfer(sendmsg, socket, first, first_bytes, second, second_bytes, MSG_NOSIGNAL);
}

ssize_t receive_packet(int socket, void* first, std::size_t first_bytes, void* second, std::size_t second_bytes) {
  return transfer(recvmsg, socket, first, first_bytes, second, second_bytes, 0);
}

std::size_t next_packet(std::uint64_t left) { return left < packet_bytes ? left : packet_bytes; }

// ---- the server

// A peer's connection, and what is left of the copy that it has requested.
struct Served {
  int socket = -1;  // -1: a free entry
  Request request{};
  int error = 0;  // of the copy
  bool waits_to_send = false;
};

struct Server {
  int listener = -1, events = -1;
  Served served[max_peers];
};

constinit Server* server = nullptr;
constinit std::atomic<bool> is_started{false}, is_serving{false};

void watch(int control, Served& peer, bool waits_to_send) {
  epoll_event event{};
  event.events = waits_to_send ? EPOLLOUT : EPOLLIN;
  event.data.ptr = &peer;
  epoll_ctl(server->events, control, peer.socket, &event);
  peer.waits_to_send = waits_to_send;
}

void drop(Served& peer) {
  close(peer.socket);
  peer.socket = -1;
}

void accept_peer() {
  const int socket = accept4(server->listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (socket < 0) return;
  for (Served& peer : server->served)
    if (peer.socket < 0 && is_trusted(socket, 0)) {
      peer = {.socket = socket};
      return watch(EPOLL_CTL_ADD, peer, false);
    }
  close(socket);
}

void answer(Served& peer, int error) {
  Reply reply{error, 0};
  peer.request.bytes = 0;
  peer.error = 0;
  if (send_packet(peer.socket, &reply, sizeof reply, nullptr, 0) < 0) drop(peer);
}

// Sends packets until all is sent or the socket is full. Returns 0 or a number of errno.
int send_packets(Served& peer) {
  Request& request = peer.request;
  while (request.bytes) {
    const std::size_t bytes = next_packet(request.bytes);
    Reply reply{0, static_cast<std::uint32_t>(bytes)};
    if (send_packet(peer.socket, &reply, sizeof reply, reinterpret_cast<void*>(request.address), bytes) < 0)
      return errno;
    request.address += bytes;
    request.bytes -= bytes;
  }
  return 0;
}

void send_memory(Served& peer) {
  const int error = send_packets(peer);
  if (peer.waits_to_send != (error == EAGAIN)) watch(EPOLL_CTL_MOD, peer, error == EAGAIN);
  if (error == EFAULT) return answer(peer, EFAULT);
  if (error != 0 && error != EAGAIN) drop(peer);
}

// Receives packets until all is written or none is there. What cannot be written is received all the same.
void receive_memory(Served& peer) {
  Request& request = peer.request;
  static char unused[packet_bytes];
  while (request.bytes) {
    const std::size_t bytes = next_packet(request.bytes);
    void* to = peer.error ? unused : reinterpret_cast<void*>(request.address);
    const ssize_t length = receive_packet(peer.socket, to, bytes, nullptr, 0);
    if (length < 0 && errno == EAGAIN) return;
    if (length < 0 && errno == EFAULT)
      peer.error = EFAULT;
    else if (length != static_cast<ssize_t>(bytes))
      return drop(peer);
    request.address += bytes;
    request.bytes -= bytes;
  }
  answer(peer, peer.error);
}

void send_file(Served& peer) {
  const int file = own_heap_file();
  if (file < 0) return answer(peer, ENOENT);
  Reply reply{};
  iovec part{&reply, sizeof reply};
  alignas(cmsghdr) char room[CMSG_SPACE(sizeof file)] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = room;
  message.msg_controllen = sizeof room;
  cmsghdr* rights = CMSG_FIRSTHDR(&message);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof file);
  std::memcpy(CMSG_DATA(rights), &file, sizeof file);
  if (sendmsg(peer.socket, &message, MSG_NOSIGNAL) < 0) drop(peer);
}

// Compares in constant time.
bool has_key(const Request& request) {
  unsigned char different = 0;
  for (std::size_t i = 0; i < sizeof request.key; ++i)
    different |= static_cast<unsigned char>(request.key[i] ^ settings().key[i]);
  return different == 0;
}

void serve(Served& peer) {
  Request& request = peer.request;
  if (request.bytes) return request.operation == Operation::read ? send_memory(peer) : receive_memory(peer);
  const ssize_t length = receive_packet(peer.socket, &request, sizeof request, nullptr, 0);
  if (length < 0 && errno == EAGAIN) return;
  if (length != sizeof request || !has_key(request)) return drop(peer);
  switch (request.operation) {
    case Operation::read:
      return send_memory(peer);
    case Operation::write:
      return receive_memory(peer);
    case Operation::file:
      return send_file(peer);
  }
  drop(peer);
}

// Ends when the program has closed the descriptors.
void* run(void*) {
  epoll_event events[max_events];
  while (true) {
    const int count = epoll_wait(server->events, events, max_events, -1);
    if (count < 0 && errno != EINTR) return nullptr;
    for (int i = 0; i < count; ++i)
      if (auto* peer = static_cast<Served*>(events[i].data.ptr))
        serve(*peer);
      else
        accept_peer();
  }
}

// Opens the socket. Returns whether that was possible.
bool listen_for_peers() {
  void* memory = mmap(nullptr, sizeof(Server), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return false;
  server = new (memory) Server;
  sockaddr_un address;
  const socklen_t length = write_address(address, getpid());
  server->listener = open_socket(SOCK_NONBLOCK);
  server->events = epoll_create1(EPOLL_CLOEXEC);
  epoll_event event{};
  event.events = EPOLLIN;
  return server->listener >= 0 && bind(server->listener, reinterpret_cast<sockaddr*>(&address), length) == 0 &&
         listen(server->listener, SOMAXCONN) == 0 &&
         epoll_ctl(server->events, EPOLL_CTL_ADD, server->listener, &event) == 0;
}

// Signals are for the program's threads.
bool start_thread() {
  sigset_t all, before;
  sigfillset(&all);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, stack_bytes);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  const bool started = pthread_create(&thread, &attributes, run, nullptr) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  return started;
}

// Returns the first character of a file; '\0' if it cannot be read.
char first_character(const char* path) {
  char first = '\0';
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return first;
  if (read(file, &first, 1) != 1) first = '\0';
  close(file);
  return first;
}

// Returns whether this process is in the user namespace of the system's start, where every user has its own number.
bool is_in_first_user_namespace() {
  char map[64] = {};
  const int file = open("/proc/self/uid_map", O_RDONLY | O_CLOEXEC);
  if (file < 0) return true;  // the kernel has no user namespaces
  const ssize_t length = read(file, map, sizeof map - 1);
  close(file);
  unsigned inside = 1, outside = 1, count = 0;
  return length > 0 && std::sscanf(map, "%u %u %u", &inside, &outside, &count) == 3 && inside == 0 && outside == 0 &&
         count == UINT32_MAX;
}

// Returns whether a peer's process_vm_readv may fail. A system call filter shows in this process itself; Yama and user
// namespaces show only between two processes.
bool copies_may_be_forbidden() {
  char from = 0, to = 0;
  const iovec source{&from, 1}, target{&to, 1};
  if (kernel_copies(SYS_process_vm_readv, getpid(), &target, 1, &source, 1, 0) != 1) return true;
  return first_character("/proc/sys/kernel/yama/ptrace_scope") >= '2' || !is_in_first_user_namespace();
}

// ---- the client

struct Connection {
  std::atomic<pid_t> pid{0};  // 0: a free entry
  int socket = -1;
  pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
};

constinit Connection connections[max_peers];
constinit std::atomic<std::size_t> copied{0}, copied_bytes{0};

// Returns the entry of a peer; nullptr if there are too many.
Connection* connection_of(pid_t pid) {
  for (int i = 0; i < max_peers; ++i) {
    Connection& entry = connections[(static_cast<unsigned>(pid) + static_cast<unsigned>(i)) % max_peers];
    pid_t found = 0;
    if (entry.pid.compare_exchange_strong(found, pid) || found == pid) return &entry;
  }
  return nullptr;
}

int connect_to(pid_t pid) {
  sockaddr_un address;
  const socklen_t length = write_address(address, pid);
  const int socket = open_socket(0);
  if (socket < 0) return -1;
  if (connect(socket, reinterpret_cast<sockaddr*>(&address), length) == 0 && is_trusted(socket, pid)) return socket;
  close(socket);
  return -1;
}

// The connection to a peer while one request uses it.
class Exchange {
 public:
  explicit Exchange(pid_t pid) : connection_(connection_of(pid)) {
    if (!connection_) return;
    pthread_mutex_lock(&connection_->lock);
    if (connection_->socket < 0) connection_->socket = connect_to(pid);
  }
  ~Exchange() {
    if (connection_) pthread_mutex_unlock(&connection_->lock);
  }
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  bool is_open() const { return connection_ && connection_->socket >= 0; }
  int socket() const { return connection_->socket; }
  bool send(Operation operation, std::uint64_t address, std::uint64_t bytes) {
    Request request{{}, operation, address, bytes};
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

// Reads a contiguous part of the peer's memory. Returns whether all of it arrived, and sets errno.
bool read_part(Exchange& exchange, char* to, std::uint64_t from, std::size_t bytes) {
  if (!exchange.send(Operation::read, from, bytes)) return false;
  for (std::size_t done = 0; done < bytes;) {
    Reply reply{};
    const ssize_t length =
        receive_packet(exchange.socket(), &reply, sizeof reply, to + done, next_packet(bytes - done));
    if (length < static_cast<ssize_t>(sizeof reply))
      return exchange.fail(length < 0 && errno == EFAULT ? EFAULT : ESRCH);
    if (reply.error) {
      errno = reply.error;
      return false;
    }
    if (static_cast<std::size_t>(length) != sizeof reply + reply.bytes) return exchange.fail(EIO);
    done += reply.bytes;
  }
  return true;
}

bool write_part(Exchange& exchange, char* from, std::uint64_t to, std::size_t bytes) {
  if (!exchange.send(Operation::write, to, bytes)) return false;
  for (std::size_t done = 0; done < bytes; done += next_packet(bytes - done))
    if (send_packet(exchange.socket(), from + done, next_packet(bytes - done), nullptr, 0) < 0)
      return exchange.fail(errno == EFAULT ? EFAULT : ESRCH);
  Reply reply{};
  if (receive_packet(exchange.socket(), &reply, sizeof reply, nullptr, 0) != sizeof reply) return exchange.fail(ESRCH);
  errno = reply.error;
  return reply.error == 0;
}

}  // namespace

void start_copy_service() {
  if (!settings().key[0] || is_started.exchange(true)) return;
  const int error = errno;
  if (copies_may_be_forbidden() && listen_for_peers() && start_thread()) is_serving.store(true);
  errno = error;
}

bool serves_copies() { return is_serving.load(std::memory_order_relaxed); }

ssize_t copy_by_owner(bool writes, pid_t pid, const iovec* local, unsigned long local_count, const iovec* remote,
                      unsigned long remote_count) {
  Exchange exchange(pid);
  if (!exchange.is_open()) {
    errno = EPERM;
    return -1;
  }
  std::size_t done = 0, local_at = 0, remote_at = 0;
  while (local_count && remote_count) {
    const std::size_t local_left = local->iov_len - local_at, remote_left = remote->iov_len - remote_at;
    const std::size_t bytes = local_left < remote_left ? local_left : remote_left;
    char* const here = static_cast<char*>(local->iov_base) + local_at;
    const auto there = reinterpret_cast<std::uintptr_t>(remote->iov_base) + remote_at;
    if (bytes && !(writes ? write_part : read_part)(exchange, here, there, bytes))
      return done ? static_cast<ssize_t>(done) : -1;
    done += bytes;
    local_at = bytes == local_left ? (++local, --local_count, 0) : local_at + bytes;
    remote_at = bytes == remote_left ? (++remote, --remote_count, 0) : remote_at + bytes;
  }
  count_owner_copy(done);
  return static_cast<ssize_t>(done);
}

void count_owner_copy(std::size_t bytes) {
  copied.fetch_add(1, std::memory_order_relaxed);
  copied_bytes.fetch_add(bytes, std::memory_order_relaxed);
}

OwnerCopies owner_copies() { return {copied.load(), copied_bytes.load()}; }

bool peer_serves_copies(pid_t pid) { return serves_copies() && Exchange(pid).is_open(); }

int request_heap_file(pid_t pid) {
  Exchange exchange(pid);
  if (!exchange.is_open() || !exchange.send(Operation::file, 0, 0)) return -1;
  Reply reply{};
  iovec part{&reply, sizeof reply};
  int file = -1;
  alignas(cmsghdr) char room[CMSG_SPACE(sizeof file)] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = room;
  message.msg_controllen = sizeof room;
  ssize_t length;
  do length = recvmsg(exchange.socket(), &message, MSG_CMSG_CLOEXEC);
  while (length < 0 && errno == EINTR);
  if (length != sizeof reply) return exchange.fail(ESRCH), -1;
  const cmsghdr* rights = CMSG_FIRSTHDR(&message);
  if (rights && rights->cmsg_level == SOL_SOCKET && rights->cmsg_type == SCM_RIGHTS &&
      rights->cmsg_len == CMSG_LEN(sizeof file))
    std::memcpy(&file, CMSG_DATA(rights), sizeof file);
  return file;
}

void reset_copy_service() {
  if (server) {
    close(server->listener);
    close(server->events);
    for (Served& peer : server->served)
      if (peer.socket >= 0) close(peer.socket);
    munmap(server, sizeof(Server));
    server = nullptr;
  }
  for (Connection& connection : connections) {
    if (connection.socket >= 0) close(connection.socket);
    connection.socket = -1;
    connection.pid.store(0);
    connection.lock = PTHREAD_MUTEX_INITIALIZER;
  }
  is_serving.store(false);
  is_started.store(false);
}

}  // namespace nearfield::heap

#include "preload/heap/copy_service.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "preload/heap/copy_protocol.hpp"
#include "preload/heap/kernel_call.hpp"
#include "preload/heap/sharing.hpp"
#include "preload/heap/start.hpp"

namespace nearfield::heap {
namespace {

constexpr int max_epoll_events = 16;
constexpr std::size_t stack_bytes = std::size_t{256} << 10;

// A client's connection, and the rest of the copy that the client has requested.
struct CopyClient {
  int socket = -1;  // -1: a free entry
  SocketRequest request{};
  int error = 0;  // of the copy, as errno
  bool waits_to_send = false;
};

struct CopyServer {
  int listening_socket = -1, epoll_descriptor = -1;
  CopyClient clients[max_copy_peers];
};

constinit CopyServer* server = nullptr;
constinit std::atomic<bool> is_service_started{false}, is_serving{false};

void set_awaited_socket_event(int epoll_operation, CopyClient& client, bool waits_to_send) {
  epoll_event event{};
  event.events = waits_to_send ? EPOLLOUT : EPOLLIN;
  event.data.ptr = &client;
  epoll_ctl(server->epoll_descriptor, epoll_operation, client.socket, &event);
  client.waits_to_send = waits_to_send;
}

void close_connection(CopyClient& client) {
  close(client.socket);
  client.socket = -1;
}

void accept_client() {
  const int socket = accept4(server->listening_socket, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (socket < 0) return;
  for (CopyClient& client : server->clients)
    if (client.socket < 0 && is_trusted_peer(socket, 0)) {
      client = {.socket = socket};
      return set_awaited_socket_event(EPOLL_CTL_ADD, client, false);
    }
  close(socket);
}

void send_reply(CopyClient& client, int error) {
  SocketReply reply{error, 0};
  client.request.bytes = 0;
  client.error = 0;
  if (send_packet(client.socket, &reply, sizeof reply, nullptr, 0) < 0) close_connection(client);
}

// Sends the rest of the requested memory. Returns 0, or an errno: EAGAIN if the socket is full.
int send_packets(CopyClient& client) {
  SocketRequest& request = client.request;
  while (request.bytes) {
    const std::size_t bytes = bytes_of_next_packet(request.bytes);
    SocketReply reply{0, static_cast<std::uint32_t>(bytes)};
    if (send_packet(client.socket, &reply, sizeof reply, reinterpret_cast<void*>(request.address), bytes) < 0)
      return errno;
    request.address += bytes;
    request.bytes -= bytes;
  }
  return 0;
}

void send_memory(CopyClient& client) {
  const int error = send_packets(client);
  if (client.waits_to_send != (error == EAGAIN)) set_awaited_socket_event(EPOLL_CTL_MOD, client, error == EAGAIN);
  if (error == EFAULT) return send_reply(client, EFAULT);
  if (error != 0 && error != EAGAIN) close_connection(client);
}

// Receives packets into the requested memory until all have arrived or the socket is empty. Packets that follow an
// error are received and discarded.
void receive_memory(CopyClient& client) {
  SocketRequest& request = client.request;
  static char discarded[packet_bytes];
  while (request.bytes) {
    const std::size_t bytes = bytes_of_next_packet(request.bytes);
    void* to = client.error ? discarded : reinterpret_cast<void*>(request.address);
    const ssize_t length = receive_packet(client.socket, to, bytes, nullptr, 0);
    if (length < 0 && errno == EAGAIN) return;
    if (length < 0 && errno == EFAULT)
      client.error = EFAULT;
    else if (length != static_cast<ssize_t>(bytes))
      return close_connection(client);
    request.address += bytes;
    request.bytes -= bytes;
  }
  send_reply(client, client.error);
}

void reply_with_heap_file(CopyClient& client) {
  const int file = own_heap_file();
  if (file < 0) return send_reply(client, ENOENT);
  client.request.bytes = 0;
  if (!send_file(client.socket, file)) close_connection(client);
}

// Returns whether the request carries the job's key. Compares in constant time.
bool has_job_key(const SocketRequest& request) {
  unsigned char different = 0;
  for (std::size_t i = 0; i < sizeof request.key; ++i)
    different |= static_cast<unsigned char>(request.key[i] ^ settings().job_key[i]);
  return different == 0;
}

void serve_request(CopyClient& client) {
  SocketRequest& request = client.request;
  if (request.bytes) return request.operation == SocketOperation::read ? send_memory(client) : receive_memory(client);
  const ssize_t length = receive_packet(client.socket, &request, sizeof request, nullptr, 0);
  if (length < 0 && errno == EAGAIN) return;
  if (length != sizeof request || !has_job_key(request)) return close_connection(client);
  switch (request.operation) {
    case SocketOperation::read:
      return send_memory(client);
    case SocketOperation::write:
      return receive_memory(client);
    case SocketOperation::get_heap_file:
      return reply_with_heap_file(client);
  }
  close_connection(client);
}

// Runs the service thread. Returns when epoll_wait() fails, since the program has closed the descriptors.
void* run_service_thread(void*) {
  epoll_event events[max_epoll_events];
  while (true) {
    const int count = epoll_wait(server->epoll_descriptor, events, max_epoll_events, -1);
    if (count < 0 && errno != EINTR) return nullptr;
    for (int i = 0; i < count; ++i)
      if (auto* client = static_cast<CopyClient*>(events[i].data.ptr))
        serve_request(*client);
      else
        accept_client();
  }
}

// Opens the listening socket and the epoll descriptor. Returns whether that succeeded.
bool listen_for_peers() {
  void* memory = mmap(nullptr, sizeof(CopyServer), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return false;
  server = new (memory) CopyServer;
  sockaddr_un address;
  const socklen_t length = write_socket_address(address, getpid());
  server->listening_socket = open_socket(SOCK_NONBLOCK);
  server->epoll_descriptor = epoll_create1(EPOLL_CLOEXEC);
  epoll_event event{};
  event.events = EPOLLIN;
  return server->listening_socket >= 0 &&
         bind(server->listening_socket, reinterpret_cast<sockaddr*>(&address), length) == 0 &&
         listen(server->listening_socket, SOMAXCONN) == 0 &&
         epoll_ctl(server->epoll_descriptor, EPOLL_CTL_ADD, server->listening_socket, &event) == 0;
}

// Starts the service thread with all signals blocked, since they are for the program's threads. Returns whether it
// started.
bool start_service_thread() {
  sigset_t all_signals, previous_signals;
  sigfillset(&all_signals);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, stack_bytes);
  pthread_sigmask(SIG_SETMASK, &all_signals, &previous_signals);
  pthread_t thread;
  const bool started = pthread_create(&thread, &attributes, run_service_thread, nullptr) == 0;
  pthread_sigmask(SIG_SETMASK, &previous_signals, nullptr);
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

// Returns whether this process is in the initial user namespace, where every user ID is mapped to itself.
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

// Returns whether the kernel may forbid a peer's process_vm_readv on this process. A system call filter also forbids
// this process to read itself; Yama and user namespaces act only between two processes, so their state is read.
bool copies_may_be_forbidden() {
  char from = 0, to = 0;
  const iovec source{&from, 1}, target{&to, 1};
  if (copy_by_kernel(SYS_process_vm_readv, getpid(), &target, 1, &source, 1, 0) != 1) return true;
  return first_character("/proc/sys/kernel/yama/ptrace_scope") >= '2' || !is_in_first_user_namespace();
}

}  // namespace

void start_copy_service() {
  if (!settings().job_key[0] || is_service_started.exchange(true)) return;
  const int error = errno;
  if (copies_may_be_forbidden() && listen_for_peers() && start_service_thread()) is_serving.store(true);
  errno = error;
}

bool serves_copies() { return is_serving.load(std::memory_order_relaxed); }

void reset_copy_service() {
  if (server) {
    close(server->listening_socket);
    close(server->epoll_descriptor);
    for (CopyClient& client : server->clients)
      if (client.socket >= 0) close(client.socket);
    munmap(server, sizeof(CopyServer));
    server = nullptr;
  }
  is_serving.store(false);
  is_service_started.store(false);
}

}  // namespace nearfield::heap

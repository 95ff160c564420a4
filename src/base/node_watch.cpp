#include "base/node_watch.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "base/launcher.hpp"

namespace nearfield {
namespace {

constexpr double ended_report_delay_s = 5;      // before a process that ended without a goodbye is reported
constexpr double reconnect_interval_s = 1;      // between two attempts to connect
constexpr double first_connect_timeout_s = 30;  // a member that does not reach its hub in this time watches nothing
constexpr int connect_step_timeout_ms = 1000;   // time limit for a step of a connection attempt
constexpr int lost_report_interval_ms = 250;    // between two calls of handle_lost_node
constexpr char goodbye_byte = 'q';
constexpr std::size_t max_hub_addresses = 8;

void set_socket_option(int socket, int level, int name, int value) {
  setsockopt(socket, level, name, &value, sizeof value);
}

// Makes the kernel probe an idle connection after a third of `silence_s`, then every sixth, and close it if no answer
// arrives for `silence_s`.
void enable_keepalive(int socket, int silence_s) {
  const int idle_s = std::max(1, silence_s / 3), interval_s = std::max(1, silence_s / 6);
  set_socket_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_socket_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, idle_s);
  set_socket_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, interval_s);
  set_socket_option(socket, IPPROTO_TCP, TCP_KEEPCNT, std::max(1, (silence_s - idle_s) / interval_s));
  set_socket_option(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, silence_s * 1000);
}

// Returns how many members a hub accepts: a quarter of the file descriptors, so that enough remain for the program.
std::size_t max_members() {
  rlimit files{};
  return getrlimit(RLIMIT_NOFILE, &files) == 0 ? static_cast<std::size_t>(files.rlim_cur / 4) : 64;
}

// Returns the numeric addresses at which other nodes may reach this host, IPv4 addresses first.
std::vector<std::string> own_addresses(bool with_ipv6) {
  std::vector<std::string> ipv4_addresses, ipv6_addresses;
  ifaddrs* interfaces = nullptr;
  if (getifaddrs(&interfaces) != 0) return {};
  for (const ifaddrs* interface_address = interfaces; interface_address;
       interface_address = interface_address->ifa_next) {
    if (!interface_address->ifa_addr || !(interface_address->ifa_flags & IFF_UP) ||
        (interface_address->ifa_flags & IFF_LOOPBACK))
      continue;
    char text[INET6_ADDRSTRLEN];
    if (interface_address->ifa_addr->sa_family == AF_INET) {
      inet_ntop(AF_INET, &reinterpret_cast<sockaddr_in*>(interface_address->ifa_addr)->sin_addr, text, sizeof text);
      ipv4_addresses.emplace_back(text);
    } else if (interface_address->ifa_addr->sa_family == AF_INET6 && with_ipv6) {
      const in6_addr& address = reinterpret_cast<sockaddr_in6*>(interface_address->ifa_addr)->sin6_addr;
      if (IN6_IS_ADDR_LINKLOCAL(&address)) continue;
      inet_ntop(AF_INET6, &address, text, sizeof text);
      ipv6_addresses.emplace_back(text);
    }
  }
  freeifaddrs(interfaces);
  ipv4_addresses.insert(ipv4_addresses.end(), ipv6_addresses.begin(), ipv6_addresses.end());
  if (ipv4_addresses.size() > max_hub_addresses) ipv4_addresses.resize(max_hub_addresses);
  return ipv4_addresses;
}

// Opens a socket that listens on any port, for IPv4 and, if the kernel has it, for IPv6. Returns -1 on failure.
int listen_on_any_port(int& port, bool& has_ipv6) {
  constexpr int type = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;
  sockaddr_storage socket_address{};
  has_ipv6 = true;
  int listener = socket(AF_INET6, type, 0);
  if (listener >= 0) {
    set_socket_option(listener, IPPROTO_IPV6, IPV6_V6ONLY, 0);
    socket_address.ss_family = AF_INET6;
    if (bind(listener, reinterpret_cast<sockaddr*>(&socket_address), sizeof(sockaddr_in6)) != 0) {
      close(listener);
      listener = -1;
    }
  }
  if (listener < 0) {
    has_ipv6 = false;
    listener = socket(AF_INET, type, 0);
    socket_address = {};
    socket_address.ss_family = AF_INET;
    if (listener >= 0 && bind(listener, reinterpret_cast<sockaddr*>(&socket_address), sizeof(sockaddr_in)) != 0) {
      close(listener);
      listener = -1;
    }
  }
  socklen_t length = sizeof socket_address;
  if (listener < 0 || listen(listener, 128) != 0 ||
      getsockname(listener, reinterpret_cast<sockaddr*>(&socket_address), &length) != 0) {
    if (listener >= 0) close(listener);
    return -1;
  }
  port = ntohs(has_ipv6 ? reinterpret_cast<sockaddr_in6&>(socket_address).sin6_port
                        : reinterpret_cast<sockaddr_in&>(socket_address).sin_port);
  return listener;
}

std::vector<std::string> split_at(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  for (const char c : text)
    if (c == separator)
      parts.emplace_back();
    else
      parts.back() += c;
  return parts;
}

}  // namespace

// The first message in each direction.
struct NodeWatch::Hello {
  std::uint64_t token = 0, id = 0;
  char name[64] = {};
};

struct NodeWatch::Peer {
  int socket = -1;
  Hello hello;
  std::size_t received_bytes = 0;  // bytes of its hello
  bool is_lost = false, is_silent = false, has_left = false;
  double lost_at_s = 0;

  ~Peer() { disconnect(); }
  bool has_complete_hello() const { return received_bytes == sizeof hello; }
  void disconnect() {
    if (socket >= 0) close(socket);
    socket = -1;
  }
};

std::string LostNode::text() const {
  if (!is_silent) return "the processes of this job on node " + name + " have ended without notice";
  const std::time_t last = std::time(nullptr) - static_cast<std::time_t>(silent_for_s + 0.5);
  std::tm local{};
  char clock[16] = "";
  std::strftime(clock, sizeof clock, "%H:%M:%S", localtime_r(&last, &local));
  return "node " + name + " has not answered for " + std::to_string(static_cast<int>(silent_for_s + 0.5)) +
         " s (since " + clock + ")";
}

int node_silence_s() {
  const char* const text = std::getenv("NEARFIELD_NODE_SILENCE_S");
  const int seconds = text ? std::atoi(text) : 0;
  return seconds > 0 ? seconds : 12;
}

std::uint64_t random_number() {
  std::uint64_t number = 0;
  while (number == 0)
    if (getrandom(&number, sizeof number, 0) != sizeof number && errno != EINTR) std::abort();
  return number;
}

double monotonic_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string own_node_name() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return name;
}

NodeWatch::NodeWatch(LostNodeHandler handle_lost_node, int silence_s)
    : handle_lost_node_(std::move(handle_lost_node)),
      silence_s_(silence_s),
      job_token_(random_number()),
      watcher_id_(random_number()),
      max_peers_(max_members()) {
  bool has_ipv6 = false;
  listener_socket_ = listen_on_any_port(port_, has_ipv6);
  if (listener_socket_ < 0) return;
  start_thread();
  if (!has_thread_) return;
  address_ = std::to_string(port_) + "/" + std::to_string(job_token_);
  for (const std::string& host : own_addresses(has_ipv6)) address_ += "/" + host;
}

NodeWatch::NodeWatch(const std::string& address, LostNodeHandler handle_lost_node, int silence_s)
    : handle_lost_node_(std::move(handle_lost_node)), silence_s_(silence_s), watcher_id_(random_number()) {
  hub_hosts_ = split_at(address, '/');
  if (hub_hosts_.size() < 3) return;
  port_ = std::atoi(hub_hosts_[0].c_str());
  job_token_ = std::strtoull(hub_hosts_[1].c_str(), nullptr, 10);
  hub_hosts_.erase(hub_hosts_.begin(), hub_hosts_.begin() + 2);
  start_thread();
}

NodeWatch::~NodeWatch() {
  should_stop_ = true;
  if (has_thread_) {
    const std::uint64_t increment = 1;
    [[maybe_unused]] const auto written = write(wake_fd_, &increment, sizeof increment);
    pthread_join(thread_, nullptr);
  }
  for (const auto& peer : peers_)
    if (peer->socket >= 0 && peer->has_complete_hello()) {
      send(peer->socket, &goodbye_byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
      shutdown(peer->socket, SHUT_WR);
    }
  peers_.clear();
  for (const int file : {listener_socket_, wake_fd_})
    if (file >= 0) close(file);
}

// The thread blocks all signals, which the program's threads handle.
void NodeWatch::start_thread() {
  start_time_s_ = monotonic_s();
  wake_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_fd_ < 0) return;
  const auto run_watch = [](void* watch) -> void* {
    static_cast<NodeWatch*>(watch)->run_watch_loop();
    return nullptr;
  };
  sigset_t all_signals, previous_mask;
  sigfillset(&all_signals);
  pthread_sigmask(SIG_BLOCK, &all_signals, &previous_mask);
  has_thread_ = pthread_create(&thread_, nullptr, run_watch, this) == 0;
  pthread_sigmask(SIG_SETMASK, &previous_mask, nullptr);
  if (has_thread_) pthread_setname_np(thread_, "nearfield-nodes");
}

void NodeWatch::run_watch_loop() {
  if (listener_socket_ < 0) {
    peers_.push_back(std::make_unique<Peer>());
    try_connect_to_hub();
  }
  while (!should_stop_) {
    std::vector<pollfd> files{{wake_fd_, POLLIN, 0}};
    if (listener_socket_ >= 0) files.push_back({listener_socket_, POLLIN, 0});
    const std::size_t first = files.size();
    for (const auto& peer : peers_) files.push_back({peer->socket, POLLIN, 0});  // poll() ignores negative ones
    if (poll(files.data(), files.size(), poll_timeout_ms()) < 0 && errno != EINTR) return;
    if (should_stop_) return;
    for (std::size_t i = 0; i + first < files.size(); ++i)
      if (files[i + first].revents) read_from_peer(*peers_[i]);
    if (listener_socket_ >= 0 && files[1].revents) accept_members();
    if (listener_socket_ < 0) try_connect_to_hub();
    report_lost_nodes();
    std::erase_if(peers_, [](const auto& peer) { return peer->has_left; });
    if (listener_socket_ < 0 && peers_.empty()) return;
  }
}

int NodeWatch::poll_timeout_ms() const {
  const bool is_busy = std::any_of(peers_.begin(), peers_.end(), [](const auto& peer) { return peer->socket < 0; });
  return is_busy ? lost_report_interval_ms : -1;
}

void NodeWatch::accept_members() {
  for (int socket; (socket = accept4(listener_socket_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0;) {
    if (peers_.size() >= max_peers_) {
      close(socket);
      continue;
    }
    enable_keepalive(socket, silence_s_);
    peers_.push_back(std::make_unique<Peer>());
    peers_.back()->socket = socket;
  }
}

// Sends this process's hello. Returns whether it was sent.
bool NodeWatch::send_hello(int socket) const {
  Hello hello{job_token_, watcher_id_, {}};
  own_node_name().copy(hello.name, sizeof hello.name - 1);
  return send(socket, &hello, sizeof hello, MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof hello;
}

void NodeWatch::read_from_peer(Peer& peer) {
  if (!peer.has_complete_hello()) return read_hello(peer);
  char byte = 0;
  const ssize_t count = recv(peer.socket, &byte, 1, MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count == 1 && byte == goodbye_byte)
    peer.has_left = true;
  else
    mark_lost(peer, count < 0 ? errno : 0);
}

// Reads the bytes that have arrived of a new connection's hello. If a member reconnects, its new connection replaces
// the lost one.
void NodeWatch::read_hello(Peer& peer) {
  const ssize_t count = recv(peer.socket, reinterpret_cast<char*>(&peer.hello) + peer.received_bytes,
                             sizeof peer.hello - peer.received_bytes, MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  peer.received_bytes += static_cast<std::size_t>(std::max<ssize_t>(count, 0));
  if (count > 0 && !peer.has_complete_hello()) return;
  peer.hello.name[sizeof peer.hello.name - 1] = '\0';
  if (count <= 0 || peer.hello.token != job_token_ || !send_hello(peer.socket)) {
    peer.has_left = true;  // does not belong to this job, or has disconnected already
    return;
  }
  for (const auto& other : peers_)
    if (other.get() != &peer && other->has_complete_hello() && other->hello.id == peer.hello.id) other->has_left = true;
}

// If a connection broke because the node does not answer, `error` is ETIMEDOUT or similar. If the process ended, the
// kernel of its node has closed the connection (0) or reset it.
void NodeWatch::mark_lost(Peer& peer, int error) {
  peer.disconnect();
  peer.is_lost = true;
  peer.is_silent = error != 0 && error != ECONNRESET && error != EPIPE;
  peer.lost_at_s = monotonic_s();
  const std::lock_guard guard(lock_);
  if (!peer.is_silent && first_ended_node_.empty()) first_ended_node_ = peer.hello.name;
}

void NodeWatch::try_connect_to_hub() {
  Peer& hub = *peers_.front();
  if (hub.socket >= 0 || hub.has_left) return;
  if (!hub.is_lost && monotonic_s() - start_time_s_ > first_connect_timeout_s) {
    hub.has_left = true;
    return;
  }
  if (last_connect_attempt_s_ && monotonic_s() - last_connect_attempt_s_ < reconnect_interval_s) return;
  for (const std::string& host : hub_hosts_) {
    if (should_stop_) return;
    if (connect_to(host, hub)) {
      hub.is_lost = false;
      break;
    }
  }
  last_connect_attempt_s_ = monotonic_s();
}

std::string NodeWatch::first_ended_node() {
  const std::lock_guard guard(lock_);
  return first_ended_node_;
}

// Waits at most connect_step_timeout_ms until the socket is ready for `events`. Returns whether it is ready.
bool NodeWatch::wait_until_ready(int socket, short events) const {
  pollfd files[] = {{socket, events, 0}, {wake_fd_, POLLIN, 0}};
  return poll(files, 2, connect_step_timeout_ms) > 0 && !should_stop_ && files[0].revents;
}

bool NodeWatch::connect_to(const std::string& host, Peer& hub) {
  sockaddr_storage socket_address{};
  const bool is_ipv6 = host.find(':') != std::string::npos;
  auto& v4 = reinterpret_cast<sockaddr_in&>(socket_address);
  auto& v6 = reinterpret_cast<sockaddr_in6&>(socket_address);
  socket_address.ss_family = is_ipv6 ? AF_INET6 : AF_INET;
  (is_ipv6 ? v6.sin6_port : v4.sin_port) = htons(static_cast<std::uint16_t>(port_));
  void* const number = is_ipv6 ? static_cast<void*>(&v6.sin6_addr) : &v4.sin_addr;
  if (inet_pton(socket_address.ss_family, host.c_str(), number) != 1) return false;
  Peer new_peer;
  new_peer.socket = socket(socket_address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (new_peer.socket < 0) return false;
  enable_keepalive(new_peer.socket, silence_s_);
  const socklen_t length = is_ipv6 ? sizeof v6 : sizeof v4;
  int error = connect(new_peer.socket, reinterpret_cast<sockaddr*>(&socket_address), length) == 0 ? 0 : errno;
  if (error == EINPROGRESS && wait_until_ready(new_peer.socket, POLLOUT)) {
    socklen_t size = sizeof error;
    getsockopt(new_peer.socket, SOL_SOCKET, SO_ERROR, &error, &size);
  }
  if (error != 0 || !send_hello(new_peer.socket)) return false;
  if (!wait_until_ready(new_peer.socket, POLLIN)) return false;
  Hello hello;
  if (recv(new_peer.socket, &hello, sizeof hello, MSG_WAITALL) != sizeof hello || hello.token != job_token_)
    return false;
  hello.name[sizeof hello.name - 1] = '\0';
  hub.hello = hello;
  hub.received_bytes = sizeof hello;
  std::swap(hub.socket, new_peer.socket);
  return true;
}

void NodeWatch::report_lost_nodes() {
  for (const auto& peer : peers_) {
    if (!peer->is_lost || peer->has_left) continue;
    const double lost_for_s = monotonic_s() - peer->lost_at_s;
    if (!peer->is_silent && lost_for_s < ended_report_delay_s) continue;
    const LostNode node{peer->hello.name, peer->is_silent, lost_for_s, lost_for_s + silence_s_};
    peer->has_left = handle_lost_node_(node);
  }
}

std::unique_ptr<NodeWatch> join_launcher_watch() {
  const char* const address = std::getenv(node_watch_variable);
  if (!address || !*address || is_later_on_node()) return nullptr;
  return std::make_unique<NodeWatch>(address, [](const LostNode& node) -> bool {
    dprintf(STDERR_FILENO, "nearfield: %s; the measurement was started there\n", node.text().c_str());
    _exit(5);
  });
}

}  // namespace nearfield

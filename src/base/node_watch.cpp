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

constexpr double ended_delay_s = 5;         // until processes that ended without a goodbye are reported
constexpr double retry_s = 1;               // between two attempts to connect
constexpr double max_first_connect_s = 30;  // a hub that is not reached within this time is never watched
constexpr int step_ms = 1000;               // time limit for a step of a connection attempt
constexpr int lost_poll_ms = 250;           // between two calls of on_lost
constexpr char goodbye = 'q';
constexpr std::size_t max_hosts = 8;

void set_option(int socket, int level, int name, int value) { setsockopt(socket, level, name, &value, sizeof value); }

// An idle connection is probed after a third of the time, then twice a third; it is broken after `silence_s` without an
// answer.
void keep_alive(int socket, int silence_s) {
  const int idle_s = std::max(1, silence_s / 3), interval_s = std::max(1, silence_s / 6);
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, idle_s);
  set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, interval_s);
  set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, std::max(1, (silence_s - idle_s) / interval_s));
  set_option(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, silence_s * 1000);
}

// Returns how many members a hub accepts. It must not take the descriptors that the program needs.
std::size_t max_members() {
  rlimit files{};
  return getrlimit(RLIMIT_NOFILE, &files) == 0 ? static_cast<std::size_t>(files.rlim_cur / 4) : 64;
}

// Returns the addresses at which other nodes may reach this host, as numbers; those of IPv4 first.
std::vector<std::string> own_addresses(bool with_ipv6) {
  std::vector<std::string> found[2];
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return {};
  for (const ifaddrs* one = all; one; one = one->ifa_next) {
    if (!one->ifa_addr || !(one->ifa_flags & IFF_UP) || (one->ifa_flags & IFF_LOOPBACK)) continue;
    char text[INET6_ADDRSTRLEN];
    if (one->ifa_addr->sa_family == AF_INET) {
      inet_ntop(AF_INET, &reinterpret_cast<sockaddr_in*>(one->ifa_addr)->sin_addr, text, sizeof text);
      found[0].emplace_back(text);
    } else if (one->ifa_addr->sa_family == AF_INET6 && with_ipv6) {
      const in6_addr& address = reinterpret_cast<sockaddr_in6*>(one->ifa_addr)->sin6_addr;
      if (IN6_IS_ADDR_LINKLOCAL(&address)) continue;
      inet_ntop(AF_INET6, &address, text, sizeof text);
      found[1].emplace_back(text);
    }
  }
  freeifaddrs(all);
  found[0].insert(found[0].end(), found[1].begin(), found[1].end());
  if (found[0].size() > max_hosts) found[0].resize(max_hosts);
  return found[0];
}

// Opens a socket that listens on any port, for IPv4 and, if the kernel has it, for IPv6. Returns -1 on failure.
int listen_on_any_port(int& port, bool& has_ipv6) {
  constexpr int type = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;
  sockaddr_storage place{};
  has_ipv6 = true;
  int made = socket(AF_INET6, type, 0);
  if (made >= 0) {
    set_option(made, IPPROTO_IPV6, IPV6_V6ONLY, 0);
    place.ss_family = AF_INET6;
    if (bind(made, reinterpret_cast<sockaddr*>(&place), sizeof(sockaddr_in6)) != 0) {
      close(made);
      made = -1;
    }
  }
  if (made < 0) {
    has_ipv6 = false;
    made = socket(AF_INET, type, 0);
    place = {};
    place.ss_family = AF_INET;
    if (made >= 0 && bind(made, reinterpret_cast<sockaddr*>(&place), sizeof(sockaddr_in)) != 0) {
      close(made);
      made = -1;
    }
  }
  socklen_t length = sizeof place;
  if (made < 0 || listen(made, 128) != 0 || getsockname(made, reinterpret_cast<sockaddr*>(&place), &length) != 0) {
    if (made >= 0) close(made);
    return -1;
  }
  port = ntohs(has_ipv6 ? reinterpret_cast<sockaddr_in6&>(place).sin6_port
                        : reinterpret_cast<sockaddr_in&>(place).sin_port);
  return made;
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
  std::size_t received = 0;  // bytes of its hello
  bool is_lost = false, is_silent = false, has_left = false;
  double lost_at_s = 0;

  ~Peer() { disconnect(); }
  bool is_known() const { return received == sizeof hello; }
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
  const int given = text ? std::atoi(text) : 0;
  return given > 0 ? given : 12;
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

NodeWatch::NodeWatch(OnLost on_lost, int silence_s)
    : on_lost_(std::move(on_lost)),
      silence_s_(silence_s),
      token_(random_number()),
      id_(random_number()),
      max_peers_(max_members()) {
  bool has_ipv6 = false;
  listener_ = listen_on_any_port(port_, has_ipv6);
  if (listener_ < 0) return;
  start_thread();
  if (!has_thread_) return;
  address_ = std::to_string(port_) + "/" + std::to_string(token_);
  for (const std::string& host : own_addresses(has_ipv6)) address_ += "/" + host;
}

NodeWatch::NodeWatch(const std::string& address, OnLost on_lost, int silence_s)
    : on_lost_(std::move(on_lost)), silence_s_(silence_s), id_(random_number()) {
  hub_hosts_ = split_at(address, '/');
  if (hub_hosts_.size() < 3) return;
  port_ = std::atoi(hub_hosts_[0].c_str());
  token_ = std::strtoull(hub_hosts_[1].c_str(), nullptr, 10);
  hub_hosts_.erase(hub_hosts_.begin(), hub_hosts_.begin() + 2);
  start_thread();
}

NodeWatch::~NodeWatch() {
  stops_ = true;
  if (has_thread_) {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = write(wake_, &one, sizeof one);
    pthread_join(thread_, nullptr);
  }
  for (const auto& peer : peers_)
    if (peer->socket >= 0 && peer->is_known()) {
      send(peer->socket, &goodbye, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
      shutdown(peer->socket, SHUT_WR);
    }
  peers_.clear();
  for (const int file : {listener_, wake_})
    if (file >= 0) close(file);
}

// The thread handles no signals, which are the program's.
void NodeWatch::start_thread() {
  started_s_ = monotonic_s();
  wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_ < 0) return;
  const auto run_watch = [](void* watch) -> void* {
    static_cast<NodeWatch*>(watch)->run();
    return nullptr;
  };
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  has_thread_ = pthread_create(&thread_, nullptr, run_watch, this) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (has_thread_) pthread_setname_np(thread_, "nearfield-nodes");
}

void NodeWatch::run() {
  if (listener_ < 0) {
    peers_.push_back(std::make_unique<Peer>());
    try_connect();
  }
  while (!stops_) {
    std::vector<pollfd> files{{wake_, POLLIN, 0}};
    if (listener_ >= 0) files.push_back({listener_, POLLIN, 0});
    const std::size_t first = files.size();
    for (const auto& peer : peers_) files.push_back({peer->socket, POLLIN, 0});  // poll() ignores negative ones
    if (poll(files.data(), files.size(), poll_timeout_ms()) < 0 && errno != EINTR) return;
    if (stops_) return;
    for (std::size_t i = 0; i + first < files.size(); ++i)
      if (files[i + first].revents) read_from(*peers_[i]);
    if (listener_ >= 0 && files[1].revents) accept_members();
    if (listener_ < 0) try_connect();
    report_lost();
    std::erase_if(peers_, [](const auto& peer) { return peer->has_left; });
    if (listener_ < 0 && peers_.empty()) return;
  }
}

int NodeWatch::poll_timeout_ms() const {
  const bool is_busy = std::any_of(peers_.begin(), peers_.end(), [](const auto& peer) { return peer->socket < 0; });
  return is_busy ? lost_poll_ms : -1;
}

void NodeWatch::accept_members() {
  for (int socket; (socket = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0;) {
    if (peers_.size() >= max_peers_) {
      close(socket);
      continue;
    }
    keep_alive(socket, silence_s_);
    peers_.push_back(std::make_unique<Peer>());
    peers_.back()->socket = socket;
  }
}

// Sends this process's hello. Returns whether it was sent.
bool NodeWatch::send_hello(int socket) const {
  Hello hello{token_, id_, {}};
  own_node_name().copy(hello.name, sizeof hello.name - 1);
  return send(socket, &hello, sizeof hello, MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof hello;
}

void NodeWatch::read_from(Peer& peer) {
  if (!peer.is_known()) return read_hello(peer);
  char byte = 0;
  const ssize_t count = recv(peer.socket, &byte, 1, MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count == 1 && byte == goodbye)
    peer.has_left = true;
  else
    mark_lost(peer, count < 0 ? errno : 0);
}

// Reads what has arrived of a new connection's hello. A member that connects anew takes the place of its lost connection.
void NodeWatch::read_hello(Peer& peer) {
  const ssize_t count = recv(peer.socket, reinterpret_cast<char*>(&peer.hello) + peer.received,
                             sizeof peer.hello - peer.received, MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  peer.received += static_cast<std::size_t>(std::max<ssize_t>(count, 0));
  if (count > 0 && !peer.is_known()) return;
  peer.hello.name[sizeof peer.hello.name - 1] = '\0';
  if (count <= 0 || peer.hello.token != token_ || !send_hello(peer.socket)) {
    peer.has_left = true;  // not of this job, or gone at once
    return;
  }
  for (const auto& other : peers_)
    if (other.get() != &peer && other->is_known() && other->hello.id == peer.hello.id) other->has_left = true;
}

// A connection that broke because nothing answered has an error such as ETIMEDOUT; if processes ended, the kernel of
// their node has closed or reset it.
void NodeWatch::mark_lost(Peer& peer, int error) {
  peer.disconnect();
  peer.is_lost = true;
  peer.is_silent = error != 0 && error != ECONNRESET && error != EPIPE;
  peer.lost_at_s = monotonic_s();
  const std::lock_guard guard(lock_);
  if (!peer.is_silent && first_ended_node_.empty()) first_ended_node_ = peer.hello.name;
}

void NodeWatch::try_connect() {
  Peer& hub = *peers_.front();
  if (hub.socket >= 0 || hub.has_left) return;
  if (!hub.is_lost && monotonic_s() - started_s_ > max_first_connect_s) {
    hub.has_left = true;
    return;
  }
  if (tried_at_s_ && monotonic_s() - tried_at_s_ < retry_s) return;
  for (const std::string& host : hub_hosts_) {
    if (stops_) return;
    if (connect_to(host, hub)) {
      hub.is_lost = false;
      break;
    }
  }
  tried_at_s_ = monotonic_s();
}

std::string NodeWatch::first_ended_node() {
  const std::lock_guard guard(lock_);
  return first_ended_node_;
}

// Waits at most a step for the socket. Returns whether it is ready.
bool NodeWatch::wait_for(int socket, short events) const {
  pollfd files[] = {{socket, events, 0}, {wake_, POLLIN, 0}};
  return poll(files, 2, step_ms) > 0 && !stops_ && files[0].revents;
}

bool NodeWatch::connect_to(const std::string& host, Peer& hub) {
  sockaddr_storage place{};
  const bool is_ipv6 = host.find(':') != std::string::npos;
  auto& v4 = reinterpret_cast<sockaddr_in&>(place);
  auto& v6 = reinterpret_cast<sockaddr_in6&>(place);
  place.ss_family = is_ipv6 ? AF_INET6 : AF_INET;
  (is_ipv6 ? v6.sin6_port : v4.sin_port) = htons(static_cast<std::uint16_t>(port_));
  void* const number = is_ipv6 ? static_cast<void*>(&v6.sin6_addr) : &v4.sin_addr;
  if (inet_pton(place.ss_family, host.c_str(), number) != 1) return false;
  Peer fresh;
  fresh.socket = socket(place.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fresh.socket < 0) return false;
  keep_alive(fresh.socket, silence_s_);
  const socklen_t length = is_ipv6 ? sizeof v6 : sizeof v4;
  int error = connect(fresh.socket, reinterpret_cast<sockaddr*>(&place), length) == 0 ? 0 : errno;
  if (error == EINPROGRESS && wait_for(fresh.socket, POLLOUT)) {
    socklen_t size = sizeof error;
    getsockopt(fresh.socket, SOL_SOCKET, SO_ERROR, &error, &size);
  }
  if (error != 0 || !send_hello(fresh.socket)) return false;
  if (!wait_for(fresh.socket, POLLIN)) return false;
  Hello hello;
  if (recv(fresh.socket, &hello, sizeof hello, MSG_WAITALL) != sizeof hello || hello.token != token_) return false;
  hello.name[sizeof hello.name - 1] = '\0';
  hub.hello = hello;
  hub.received = sizeof hello;
  std::swap(hub.socket, fresh.socket);
  return true;
}

void NodeWatch::report_lost() {
  for (const auto& peer : peers_) {
    if (!peer->is_lost || peer->has_left) continue;
    const double lost_for_s = monotonic_s() - peer->lost_at_s;
    if (!peer->is_silent && lost_for_s < ended_delay_s) continue;
    const LostNode node{peer->hello.name, peer->is_silent, lost_for_s, lost_for_s + silence_s_};
    peer->has_left = on_lost_(node);
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

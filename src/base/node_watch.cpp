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
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

namespace nearfield {
namespace {

// An idle connection is probed after `idle_s`, then every `interval_s`; it is broken after `silence_s` without an
// answer.
constexpr int idle_s = 4, interval_s = 2, silence_s = 12;
constexpr double end_patience_s = 5;        // until processes that ended without a goodbye are reported
constexpr double retry_s = 1;               // between two attempts to connect
constexpr double max_first_connect_s = 30;  // a hub that is not reached within this time is never watched
constexpr int step_ms = 1000;               // time limit for a step of a connection attempt
constexpr char goodbye = 'q';
constexpr std::size_t max_hosts = 8;

double now_s() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

std::uint64_t random_number() {
  std::uint64_t number = 0;
  if (getrandom(&number, sizeof number, 0) != sizeof number) std::abort();
  return number;
}

void set_option(int socket, int level, int name, int value) { setsockopt(socket, level, name, &value, sizeof value); }

void keep_alive(int socket) {
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, idle_s);
  set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, interval_s);
  set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, (silence_s - idle_s) / interval_s);
  set_option(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, silence_s * 1000);
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

// The first message in each direction.
struct Hello {
  std::uint64_t token = 0, id = 0;
  char name[64] = {};
};

Hello make_hello(std::uint64_t token, std::uint64_t id) {
  Hello hello{token, id, {}};
  own_node_name().copy(hello.name, sizeof hello.name - 1);
  return hello;
}

bool send_hello(int socket, const Hello& hello) {
  return send(socket, &hello, sizeof hello, MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof hello;
}

// Returns the nearest ancestor of this process that is a launcher; 0 if there is none.
pid_t find_launcher() {
  pid_t process = getppid();
  for (int i = 0; i < 8 && process > 1; ++i) {
    char text[512] = {};
    std::FILE* const file = std::fopen(("/proc/" + std::to_string(process) + "/stat").c_str(), "r");
    if (!file) return 0;
    const std::size_t count = std::fread(text, 1, sizeof text - 1, file);
    std::fclose(file);
    const char *const begin = std::strchr(text, '('), *const end = std::strrchr(text, ')');
    if (count == 0 || !begin || !end) return 0;
    const std::string name(begin + 1, end);
    for (const char* launcher : {"mpirun", "mpiexec", "mpiexec.hydra", "prterun", "orterun"})
      if (name == launcher) return process;
    int parent = 0;
    if (std::sscanf(end + 1, " %*c %d", &parent) != 1) return 0;
    process = parent;
  }
  return 0;
}

// Returns whether a launcher's variable says that this process is not the first of the job on its node.
bool is_later_on_node() {
  for (const char* variable : {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "PMI_LOCAL_RANK", "SLURM_LOCALID"})
    if (const char* text = std::getenv(variable)) return std::atoi(text) > 0;
  return false;
}

}  // namespace

struct NodeWatch::Peer {
  int socket = -1;
  Hello hello;
  std::size_t received = 0;  // bytes of its hello
  bool is_lost = false, is_silent = false, has_left = false;
  double lost_at_s = 0, waiting_since_s = 0;
  std::uint64_t progress = 0;

  ~Peer() { disconnect(); }
  bool is_known() const { return received == sizeof hello; }
  void disconnect() {
    if (socket >= 0) close(socket);
    socket = -1;
  }
};

std::string own_node_name() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return name;
}

NodeWatch::NodeWatch(OnLost on_lost, double patience_s)
    : on_lost_(std::move(on_lost)), patience_s_(patience_s), token_(random_number()), id_(random_number()) {
  bool has_ipv6 = false;
  listener_ = listen_on_any_port(port_, has_ipv6);
  if (listener_ < 0) return;
  address_ = std::to_string(port_) + "/" + std::to_string(token_);
  for (const std::string& host : own_addresses(has_ipv6)) address_ += "/" + host;
  start_thread();
}

NodeWatch::NodeWatch(const std::string& address, OnLost on_lost, double patience_s)
    : on_lost_(std::move(on_lost)), patience_s_(patience_s), id_(random_number()) {
  hub_hosts_ = split_at(address, '/');
  if (hub_hosts_.size() < 3) return;
  port_ = std::atoi(hub_hosts_[0].c_str());
  token_ = std::strtoull(hub_hosts_[1].c_str(), nullptr, 10);
  hub_hosts_.erase(hub_hosts_.begin(), hub_hosts_.begin() + 2);
  start_thread();
}

NodeWatch::~NodeWatch() {
  stops_ = true;
  if (thread_.joinable()) {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = write(wake_, &one, sizeof one);
    thread_.join();
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
  started_s_ = now_s();
  wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  thread_ = std::thread([this] { run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
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
  return is_busy ? 250 : -1;
}

void NodeWatch::accept_members() {
  for (int socket; (socket = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0;) {
    keep_alive(socket);
    peers_.push_back(std::make_unique<Peer>());
    peers_.back()->socket = socket;
  }
}

void NodeWatch::read_from(Peer& peer) {
  if (peer.is_known()) {
    char byte = 0;
    const ssize_t count = recv(peer.socket, &byte, 1, MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (count == 1 && byte == goodbye)
      peer.has_left = true;
    else
      mark_lost(peer, count < 0 ? errno : 0);
    return;
  }
  const ssize_t count = recv(peer.socket, reinterpret_cast<char*>(&peer.hello) + peer.received,
                             sizeof peer.hello - peer.received, MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  peer.received += static_cast<std::size_t>(std::max<ssize_t>(count, 0));
  if (count > 0 && !peer.is_known()) return;
  peer.hello.name[sizeof peer.hello.name - 1] = '\0';
  if (count <= 0 || peer.hello.token != token_ || !send_hello(peer.socket, make_hello(token_, id_))) {
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
  peer.lost_at_s = peer.waiting_since_s = now_s();
  if (const std::lock_guard guard(lock_); !peer.is_silent && first_ended_node_.empty())
    first_ended_node_ = peer.hello.name;
  peer.progress = progress_.load(std::memory_order_relaxed);
}

void NodeWatch::try_connect() {
  Peer& hub = *peers_.front();
  if (hub.socket >= 0 || hub.has_left) return;
  if (!hub.is_lost && now_s() - started_s_ > max_first_connect_s) {
    hub.has_left = true;
    return;
  }
  if (tried_at_s_ && now_s() - tried_at_s_ < retry_s) return;
  for (const std::string& host : hub_hosts_) {
    if (stops_) return;
    if (connect_to(host, hub)) {
      hub.is_lost = false;
      break;
    }
  }
  tried_at_s_ = now_s();
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
  keep_alive(fresh.socket);
  const socklen_t length = is_ipv6 ? sizeof v6 : sizeof v4;
  int error = connect(fresh.socket, reinterpret_cast<sockaddr*>(&place), length) == 0 ? 0 : errno;
  if (error == EINPROGRESS && wait_for(fresh.socket, POLLOUT)) {
    socklen_t size = sizeof error;
    getsockopt(fresh.socket, SOL_SOCKET, SO_ERROR, &error, &size);
  }
  if (error != 0 || !send_hello(fresh.socket, make_hello(token_, id_))) return false;
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
    if (const auto progress = progress_.load(std::memory_order_relaxed); progress != peer->progress) {
      peer->progress = progress;
      peer->waiting_since_s = now_s();
    }
    if (now_s() - peer->waiting_since_s < (peer->is_silent ? patience_s_ : end_patience_s)) continue;
    peer->has_left = true;
    const std::string name = peer->hello.name;
    const int silent_s = static_cast<int>(now_s() - peer->lost_at_s + silence_s + 0.5);
    on_lost_(peer->is_silent ? "node " + name + " has not answered for " + std::to_string(silent_s) + " s"
                             : "the processes of this job on node " + name + " have ended without notice");
  }
}

void end_job(const std::string& text) {
  std::fprintf(stderr, "nearfield: %s\n", text.c_str());
  const pid_t launcher = find_launcher();
  // The launcher ends this process before it needs the next signal, so a child in a session of its own sends them. Open
  // MPI 5 stops waiting for the dead node at the second SIGTERM; MPICH 5 may wait on.
  if (launcher > 0 && fork() == 0) {
    setsid();
    for (const int number : {SIGTERM, SIGTERM, SIGKILL}) {
      if (kill(launcher, number) != 0) break;
      sleep(1);
    }
    _exit(0);
  }
  _exit(1);
}

std::unique_ptr<NodeWatch> join_launcher_watch() {
  const char* const address = std::getenv(node_watch_variable);
  if (!address || !*address || is_later_on_node()) return nullptr;
  const auto end = [](const std::string& text) {
    std::fprintf(stderr, "nearfield: %s; the measurement was started there\n", text.c_str());
    _exit(5);
  };
  return std::make_unique<NodeWatch>(address, end, 0.0);
}

}  // namespace nearfield

// Detects that a node of a job has died, so that no process waits for it forever. One process of each node holds a TCP
// connection to a hub, which is another process of the job or the nearfield command. The kernels, not the processes,
// keep the connections alive (TCP keepalive), so a node whose processors are all busy, or whose processes are all
// stopped, still answers, and only a dead node does not. While all nodes are alive, the watching threads sleep.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace nearfield {

/// The environment variable by which the nearfield command passes the address of its hub to the programs it launches.
inline constexpr const char* node_watch_variable = "NEARFIELD_NODE_WATCH";

/// A node to which the connection is lost.
struct LostNode {
  std::string name;
  bool is_silent = false;   ///< the node does not answer; if false, it answers, but the job's process there has ended
  double lost_for_s = 0;    ///< seconds since the kernel reported that the connection is lost
  double silent_for_s = 0;  ///< seconds since the last answer

  /// Returns a text such as "node b has not answered for 12 s (since 14:03:20)".
  std::string text() const;
};

/// Returns after how many seconds without an answer a node counts as lost: 12, or the value of
/// NEARFIELD_NODE_SILENCE_S, which tests set.
int node_silence_s();

/// Returns an unpredictable random number (getrandom); never 0.
std::uint64_t random_number();

/// Returns the seconds of a monotonic clock.
double monotonic_s();

/// A hub, or a member that is connected to a hub. The hub watches all members, and each member watches the hub. A
/// separate thread sleeps until the state of a connection changes. If no socket or no thread can be created, nothing is
/// watched.
class NodeWatch {
 public:
  /// The watching thread calls it for each lost node, about four times a second, until it returns true or the node
  /// answers again.
  using LostNodeHandler = std::function<bool(const LostNode&)>;

  /// Makes a hub.
  explicit NodeWatch(LostNodeHandler handle_lost_node, int silence_s = node_silence_s());
  /// Makes a member of the hub at that address. If the hub cannot be reached, nothing is watched.
  NodeWatch(const std::string& address, LostNodeHandler handle_lost_node, int silence_s = node_silence_s());
  /// Tells the peers that this process leaves, so that they do not report it as lost.
  ~NodeWatch();
  NodeWatch(const NodeWatch&) = delete;
  NodeWatch& operator=(const NodeWatch&) = delete;

  /// Returns the address of a hub, without blanks, commas, semicolons and equals signs; empty if no hub can be made.
  const std::string& address() const { return address_; }
  /// Returns the node of the first process that has ended without a goodbye; empty if none has.
  std::string first_ended_node();

 private:
  struct Hello;
  struct Peer;

  void start_thread();
  void run_watch_loop();
  int poll_timeout_ms() const;
  void accept_members();
  bool send_hello(int socket) const;
  void read_from_peer(Peer& peer);
  void read_hello(Peer& peer);
  void mark_lost(Peer& peer, int error);
  void try_connect_to_hub();
  bool connect_to(const std::string& host, Peer& hub);
  bool wait_until_ready(int socket, short events) const;
  void report_lost_nodes();

  LostNodeHandler handle_lost_node_;
  int silence_s_;
  std::string address_;
  std::vector<std::string> hub_hosts_;  // numeric addresses of the hub, for a member
  std::uint64_t job_token_ = 0, watcher_id_ = 0;
  int port_ = 0, listener_socket_ = -1, wake_fd_ = -1;
  std::size_t max_peers_ = 1;
  double start_time_s_ = 0, last_connect_attempt_s_ = 0;
  std::vector<std::unique_ptr<Peer>> peers_;  // used by the watching thread only
  std::atomic<bool> should_stop_{false};
  std::mutex lock_;
  std::string first_ended_node_;  // guarded by lock_
  bool has_thread_ = false;
  pthread_t thread_{};
};

/// Returns this host's name, as the watch reports it.
std::string own_node_name();

/// If the nearfield command has launched this process, and it is the first process on its node, makes it a member of
/// nearfield's hub; otherwise returns null. If the hub is lost, the process ends with exit code 5.
std::unique_ptr<NodeWatch> join_launcher_watch();

}  // namespace nearfield

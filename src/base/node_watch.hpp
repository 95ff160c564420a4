// Notices that a node of a job has died, so that nobody waits for it forever. One process of each node holds a TCP
// connection to a hub, which is another process of the job or nearfield's own. The kernels, not the processes, keep the
// connections alive (TCP keepalive): a node on which all processors are busy, or all processes are stopped, still
// answers, and a dead one does not. No process does anything while all nodes live.
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

/// The environment variable that contains the address of nearfield's hub, for the programs that nearfield launches.
inline constexpr const char* node_watch_variable = "NEARFIELD_NODE_WATCH";

/// A node to which the connection is lost.
struct LostNode {
  std::string name;
  bool is_silent = false;   ///< nothing answers there; if false, the processes of the job there have ended
  double lost_for_s = 0;    ///< seconds since the kernel reported that the connection is lost
  double silent_for_s = 0;  ///< seconds since the last answer

  /// Returns a text such as "node b has not answered for 12 s (since 14:03:20)".
  std::string text() const;
};

/// Returns after how many seconds without an answer a node is silent: 12, or what NEARFIELD_NODE_SILENCE_S says, which
/// tests set.
int node_silence_s();

/// Returns a random number that others cannot predict; never 0.
std::uint64_t random_number();

/// Returns the seconds of a clock that is never set.
double monotonic_s();

/// A hub, or a member that is connected to a hub. The hub watches all members, and each member watches the hub. A
/// thread of its own sleeps until a connection changes. If the system has no socket or no thread left, nothing is
/// watched.
class NodeWatch {
 public:
  /// Called by the thread for a lost node, about four times a second, until it returns true or the node answers again.
  using OnLost = std::function<bool(const LostNode&)>;

  /// Makes a hub.
  explicit NodeWatch(OnLost on_lost, int silence_s = node_silence_s());
  /// Makes a member of the hub at that address, which need not be reachable: then nothing is watched.
  NodeWatch(const std::string& address, OnLost on_lost, int silence_s = node_silence_s());
  /// Reports to the others that this process leaves, so that it is not a lost one.
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
  void run();
  int poll_timeout_ms() const;
  void accept_members();
  bool send_hello(int socket) const;
  void read_from(Peer& peer);
  void read_hello(Peer& peer);
  void mark_lost(Peer& peer, int error);
  void try_connect();
  bool connect_to(const std::string& host, Peer& hub);
  bool wait_for(int socket, short events) const;
  void report_lost();

  OnLost on_lost_;
  int silence_s_;
  std::string address_;
  std::vector<std::string> hub_hosts_;  // numeric addresses of the hub, for a member
  std::uint64_t token_ = 0, id_ = 0;
  int port_ = 0, listener_ = -1, wake_ = -1;
  std::size_t max_peers_ = 1;
  double started_s_ = 0, tried_at_s_ = 0;
  std::vector<std::unique_ptr<Peer>> peers_;  // of the thread
  std::atomic<bool> stops_{false};
  std::mutex lock_;
  std::string first_ended_node_;  // guarded by lock_
  bool has_thread_ = false;
  pthread_t thread_{};
};

/// Returns this host's name, as the watch reports it.
std::string own_node_name();

/// Makes this process a member of nearfield's hub, if nearfield has launched it and it is the first of its node; else
/// returns null. If the hub is lost, the process ends with exit code 5.
std::unique_ptr<NodeWatch> join_launcher_watch();

}  // namespace nearfield

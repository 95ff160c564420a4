// Notices that a node of a job has died, so that nobody waits for it forever. One process of each node holds a TCP
// connection to a hub, which is another process of the job or nearfield's own. The kernels, not the processes, keep the
// connections alive (TCP keepalive): a node on which all processors are busy, or all processes are stopped, still
// answers, and a dead one does not. No process does anything while all nodes live.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace nearfield {

/// The environment variable that contains the address of nearfield's hub, for the programs that nearfield launches.
inline constexpr const char* node_watch_variable = "NEARFIELD_NODE_WATCH";

/// A hub, or a member that is connected to a hub. The hub watches all members, and each member watches the hub. A
/// thread of its own sleeps until a connection changes.
class NodeWatch {
 public:
  /// Called once by the thread, with a text such as "node b has not answered for 12 s".
  using OnLost = std::function<void(const std::string&)>;

  /// Makes a hub. A silent node is reported as lost after `patience_s` further seconds in which no progress was noted.
  NodeWatch(OnLost on_lost, double patience_s);
  /// Makes a member of the hub at that address, which need not be reachable: then nothing is watched.
  NodeWatch(const std::string& address, OnLost on_lost, double patience_s);
  /// Tells the others that this process leaves, so that they do not report it as lost.
  ~NodeWatch();
  NodeWatch(const NodeWatch&) = delete;
  NodeWatch& operator=(const NodeWatch&) = delete;

  /// Returns the address of a hub, without blanks, commas, semicolons and equals signs; empty if no hub can be made.
  const std::string& address() const { return address_; }
  /// Returns the node of the first process that has ended without a goodbye; empty if none has.
  std::string first_ended_node();
  /// States that this process goes on: delays the report of a lost node. Any thread may call it.
  void note_progress() { progress_.fetch_add(1, std::memory_order_relaxed); }

 private:
  struct Peer;

  void start_thread();
  void run();
  int poll_timeout_ms() const;
  void accept_members();
  void read_from(Peer& peer);
  void mark_lost(Peer& peer, int error);
  void try_connect();
  bool connect_to(const std::string& host, Peer& hub);
  bool wait_for(int socket, short events) const;
  void report_lost();

  OnLost on_lost_;
  double patience_s_;
  std::string address_;
  std::vector<std::string> hub_hosts_;  // numeric addresses of the hub, for a member
  std::uint64_t token_ = 0, id_ = 0;
  int port_ = 0, listener_ = -1, wake_ = -1;
  double started_s_ = 0, tried_at_s_ = 0;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::atomic<std::uint64_t> progress_{0};
  std::atomic<bool> stops_{false};
  std::mutex lock_;
  std::string first_ended_node_;  // guarded by lock_
  std::thread thread_;
};

/// Returns this host's name, as the watch reports it.
std::string own_node_name();

/// Watches the nodes of a communicator: rank 0 is the hub, and the lowest rank of each other node is a member. Returns
/// null on all other ranks, if all ranks are on one node, or if `is_watched` is true on any rank. Collective:
/// `allgather(own, all, bytes)` and `bcast(data, bytes)`, from rank 0, are those of the communicator.
template <class Allgather, class Bcast>
std::unique_ptr<NodeWatch> watch_nodes(int rank, int ranks, bool is_watched, Allgather allgather, Bcast bcast,
                                       const NodeWatch::OnLost& on_lost, double patience_s) {
  struct Card {
    char host[64];
    int is_watched;
  } own{};
  own_node_name().copy(own.host, sizeof own.host - 1);
  own.is_watched = is_watched;
  std::vector<Card> cards(static_cast<std::size_t>(ranks));
  allgather(&own, cards.data(), sizeof own);
  bool spans_nodes = false, is_first_of_node = true;
  for (std::size_t i = 0; i < cards.size(); ++i) {
    if (cards[i].is_watched) return nullptr;
    spans_nodes = spans_nodes || std::strcmp(cards[i].host, cards[0].host) != 0;
    if (static_cast<int>(i) < rank && std::strcmp(cards[i].host, own.host) == 0) is_first_of_node = false;
  }
  if (!spans_nodes) return nullptr;
  std::unique_ptr<NodeWatch> watch;
  if (rank == 0) watch = std::make_unique<NodeWatch>(on_lost, patience_s);
  char address[512] = {};
  if (watch) watch->address().copy(address, sizeof address - 1);
  bcast(address, sizeof address);
  if (rank > 0 && is_first_of_node && *address) watch = std::make_unique<NodeWatch>(address, on_lost, patience_s);
  return watch;
}

/// Prints `nearfield: <text>` and ends this process with exit code 1, upon which the launcher ends the others of the job.
/// If the launcher is an ancestor of this process, ends it by SIGTERM or SIGKILL, since it may wait for
/// the dead node forever.
/// Any thread may call it: MPI_Abort is permitted only with MPI_THREAD_MULTIPLE, and may wait for the dead node, too.
[[noreturn]] void end_job(const std::string& text);

/// Makes this process a member of nearfield's hub, if nearfield has launched it and it is the first of its node; else
/// returns null. If the hub is lost, the process ends with exit code 5.
std::unique_ptr<NodeWatch> join_launcher_watch();

}  // namespace nearfield

#include "preload/collectives/node_comm.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <mutex>

#include "base/job_watch.hpp"
#include "preload/collectives/job.hpp"
#include "preload/collectives/settings.hpp"
#include "preload/mpi/handles.hpp"

namespace nearfield::collectives {

struct RankConnectionInfo {
  ArenaAddress arena;
  // offset of the rank's box in its arena, and the value of the box's counter `closed`
  std::uint64_t box_offset, closed;
  std::uint64_t nonce_copy_address;  // the address, in the rank's private memory, of a copy of its arena's nonce
  std::uint64_t selection_digest;    // digest of the settings; ranks with different algorithms would deadlock
};

namespace {

std::uint64_t arena_nonce_copy = 0;

std::uint64_t handle_bits(MPI_Comm comm) {
  std::uint64_t number = 0;
  static_assert(sizeof comm <= sizeof number);
  std::memcpy(&number, &comm, sizeof comm);
  return number;
}

// A cache of the most recently used communicators, indexed by a hash of the handle. A program must not free a
// communicator in one thread while another thread uses it, so if an entry has the right handle both before and after
// its `node` was read, `node` belongs to this handle.
struct CacheEntry {
  std::atomic<std::uint64_t> comm{0};
  std::atomic<NodeComm*> node{nullptr};
};
CacheEntry node_comm_cache[64];
std::mutex node_comm_cache_mutex;

CacheEntry& cache_entry_of(MPI_Comm comm) {
  const std::uint64_t number = handle_bits(comm);
  return node_comm_cache[(number ^ number >> 6 ^ number >> 12) % 64];
}

void cache_node_comm(MPI_Comm comm, NodeComm* node) {
  const std::lock_guard guard(node_comm_cache_mutex);
  CacheEntry& entry = cache_entry_of(comm);
  entry.comm.store(0);
  entry.node.store(node);
  entry.comm.store(node ? handle_bits(comm) : 0);
}

NodeComm* find_cached_node_comm(MPI_Comm comm) {
  const CacheEntry& entry = cache_entry_of(comm);
  if (entry.comm.load(std::memory_order_acquire) != handle_bits(comm)) return nullptr;
  NodeComm* const node = entry.node.load(std::memory_order_acquire);
  return entry.comm.load(std::memory_order_acquire) == handle_bits(comm) ? node : nullptr;
}

// MPIs support a few thousand communicators at a time. A program that creates many communicators gets at most
// `max_num_lanes` lanes, each of which needs one more communicator.
constexpr int max_num_lanes = 64;
std::atomic<int> num_lanes{0};
std::atomic<bool> is_finalizing{false};

// Collective over the communicator.
void start_watching_nodes_of(MPI_Comm comm, int rank, int ranks) {
  const JobRanks job_ranks{
      rank, ranks,
      [comm](const void* own_part, void* all_parts, std::size_t bytes) {
        const int count = static_cast<int>(bytes);
        PMPI(MPI_Allgather)(own_part, count, MPI_BYTE, all_parts, count, MPI_BYTE, comm);
      },
      [comm](void* data, std::size_t bytes) { PMPI(MPI_Bcast)(data, static_cast<int>(bytes), MPI_BYTE, 0, comm); }};
  start_job_watch(job_ranks, "a collective across nodes");
}

int copy_no_attribute(MPI_Comm, int, void*, void*, void*, int* flag) {
  *flag = 0;
  return MPI_SUCCESS;
}

// Returns a number that is equal on all ranks of a node and different on other nodes. For tests, the setting
// `node_ranks` divides a host into several nodes.
std::uint64_t node_id_of(std::uint64_t host) {
  const int node_ranks = settings().ranks_per_node_for_tests;
  if (node_ranks == 0) return host;
  int rank = 0;
  PMPI(MPI_Comm_rank)(MPI_COMM_WORLD, &rank);
  return host ^ static_cast<std::uint64_t>(rank / node_ranks) * 0x9e3779b97f4a7c15u;
}

// Returns whether a GPU runtime is loaded. Then buffers may lie in device memory, from which only the MPI library can
// copy.
bool is_gpu_runtime_loaded() {
  for (const char* name :
       {"libcuda.so.1", "libamdhip64.so", "libamdhip64.so.5", "libamdhip64.so.6", "libze_loader.so.1"})
    if (dlopen(name, RTLD_LAZY | RTLD_NOLOAD)) return true;
  return false;
}

}  // namespace

NodeComm::NodeComm(MPI_Comm comm) : comm_(comm) {
  int is_inter = 0;
  PMPI(MPI_Comm_test_inter)(comm, &is_inter);
  PMPI(MPI_Comm_rank)(comm, &rank_);
  PMPI(MPI_Comm_size)(comm, &ranks_);
  if (is_inter || ranks_ < 2 || !is_library_loaded_by_all_ranks() || !is_communicator_within_job(comm))
    connection_state_ = ConnectionState::left_to_mpi;
}

NodeComm::~NodeComm() { free_lane_communicator(); }

NodeComm* NodeComm::find_or_create(MPI_Comm comm) {
  NodeComm* node = find_cached_node_comm(comm);
  if (!node) {
    if (!read_attribute(comm, node)) return nullptr;
    if (!node) {
      node = new NodeComm(comm);
      if (PMPI(MPI_Comm_set_attr)(comm, attribute_key(), node) != MPI_SUCCESS) std::abort();
    }
    cache_node_comm(comm, node);
  }
  if (node->connection_state_ == ConnectionState::direct) return node;
  return node->connection_state_ == ConnectionState::counting_calls ? node->count_call() : nullptr;
}

bool NodeComm::waits_for_watched_nodes(MPI_Comm comm) {
  if (!watched_wait_mark.load(std::memory_order_relaxed)) return false;
  NodeComm* node = find_cached_node_comm(comm);
  return (node || read_attribute(comm, node)) && node && node->spans_nodes_;
}

int NodeComm::attribute_key() {
  static const int key = [] {
    int created_key = MPI_KEYVAL_INVALID;
    PMPI(MPI_Comm_create_keyval)(copy_no_attribute, delete_attribute, &created_key, nullptr);
    return created_key;
  }();
  return key;
}

bool NodeComm::read_attribute(MPI_Comm comm, NodeComm*& node) {
  int is_attached = 0;
  if (comm == MPI_COMM_NULL || PMPI(MPI_Comm_get_attr)(comm, attribute_key(), &node, &is_attached) != MPI_SUCCESS)
    return false;
  if (!is_attached) node = nullptr;
  return true;
}

int NodeComm::delete_attribute(MPI_Comm comm, int, void* value, void*) {
  NodeComm* const node = static_cast<NodeComm*>(value);
  if (find_cached_node_comm(comm)) cache_node_comm(comm, nullptr);
  if (node->connection_state_ == ConnectionState::direct)
    release_box(node->own_box_offset_, node->boxes_.data(), node->closed_before_.data(),
                static_cast<int>(node->boxes_.size()));
  delete node;
  return MPI_SUCCESS;
}

NodeComm* NodeComm::count_call() {
  // a communicator that is used once is never connected
  if (num_calls_++ < settings().num_calls_before_connecting) return nullptr;
  connect_ranks();
  return connection_state_ == ConnectionState::direct ? this : nullptr;
}

// Exchanges the ranks' cards by an MPI_Allgather, maps the boxes of the ranks of this node, creates the lanes, and
// agrees with all ranks, by MPI_Allreduce, whether all have succeeded. Sets `connection_state_`.
void NodeComm::connect_ranks() {
  connection_state_ = ConnectionState::left_to_mpi;
  RankConnectionInfo own_info{own_arena(), 0, 0, reinterpret_cast<std::uintptr_t>(&arena_nonce_copy),
                              settings().rules_digest};
  arena_nonce_copy = own_info.arena.nonce;
  if (own_info.arena.host && !is_gpu_runtime_loaded()) own_info.box_offset = allocate_box();
  if (own_info.box_offset) own_info.closed = own_box(own_info.box_offset)->closed.load(std::memory_order_relaxed);
  own_info.arena.host = node_id_of(own_info.arena.host);
  std::vector<RankConnectionInfo> infos(static_cast<std::size_t>(ranks_));
  if (PMPI(MPI_Allgather)(&own_info, sizeof own_info, MPI_BYTE, infos.data(), sizeof own_info, MPI_BYTE, comm_) !=
      MPI_SUCCESS)
    return;
  std::vector<std::uint64_t> hosts;
  for (const RankConnectionInfo& info : infos) hosts.push_back(info.arena.host);
  layout_ = Layout(hosts, rank_);
  spans_nodes_ = layout_.nodes() > 1;
  const bool has_peers = layout_.max_ranks_per_node() > 1;  // some node has several ranks
  int is_connected = has_peers && map_peer_boxes(infos) && (!spans_nodes() || num_lanes.load() < max_num_lanes),
      are_connected = 0;
  if (has_peers) PMPI(MPI_Allreduce)(&is_connected, &are_connected, 1, MPI_INT, MPI_MIN, comm_);
  if (are_connected && spans_nodes()) {
    is_connected = create_lane_communicator();
    PMPI(MPI_Allreduce)(&is_connected, &are_connected, 1, MPI_INT, MPI_MIN, comm_);
  }
  if (are_connected && spans_nodes()) start_watching_nodes_of(comm_, rank_, ranks_);
  if (are_connected) {
    const Layout::RankPlace place = layout_.own_place();
    own_box_offset_ = own_info.box_offset;
    port_->set_boxes(boxes_, place.local);
    const int members = static_cast<int>(boxes_.size());
    selection_ = AlgorithmSelection(settings().algorithm_rules, layout_.max_ranks_per_node(), layout_.nodes());
    in_node_selection_ = AlgorithmSelection(settings().algorithm_rules, members);
    exchange_ = std::make_unique<Exchange<LivePort>>(*port_, boxes_.data(), members, place.local);
    connection_state_ = ConnectionState::direct;
  } else {
    free_lane_communicator();
    if (own_info.box_offset) release_box(own_info.box_offset, nullptr, nullptr, 0);  // no rank has used the box
  }
}

bool NodeComm::map_peer_boxes(const std::vector<RankConnectionInfo>& infos) {
  const std::vector<int>& members = layout_.ranks_of_node(layout_.own_place().node);
  if (members.size() > static_cast<std::size_t>(max_node_ranks)) return false;
  for (const RankConnectionInfo& info : infos)
    if (info.box_offset == 0 || info.selection_digest != infos[0].selection_digest) return false;
  std::vector<pid_t> processes;
  for (const int rank : members) {
    const RankConnectionInfo& info = infos[static_cast<std::size_t>(rank)];
    processes.push_back(static_cast<pid_t>(info.arena.pid));
    closed_before_.push_back(info.closed);
  }
  port_ = std::make_unique<LivePort>(comm_, processes);
  for (std::size_t local = 0; local < members.size(); ++local) {
    const RankConnectionInfo& info = infos[static_cast<std::size_t>(members[local])];
    boxes_.push_back(peer_box(info.arena, info.box_offset));
    std::uint64_t read = 0;
    if (!boxes_.back() ||
        !port_->try_read_memory(static_cast<int>(local), &read, info.nonce_copy_address, sizeof read) ||
        read != info.arena.nonce)
      return false;
  }
  return true;
}

// Splits the communicator into lanes. Collective over the communicator. Returns whether this rank succeeded.
bool NodeComm::create_lane_communicator() {
  const auto [node, local] = layout_.own_place();
  const int color = local < layout_.lanes() ? local : MPI_UNDEFINED;
  if (PMPI(MPI_Comm_split)(comm_, color, node, &lane_comm_) != MPI_SUCCESS) return false;
  if (lane_comm_ == MPI_COMM_NULL) return true;
  ++num_lanes;
  return PMPI(MPI_Comm_set_errhandler)(lane_comm_, MPI_ERRORS_ARE_FATAL) == MPI_SUCCESS;
}

void NodeComm::free_lane_communicator() {
  if (lane_comm_ == MPI_COMM_NULL || is_finalizing) return;
  PMPI(MPI_Comm_free)(&lane_comm_);
  --num_lanes;
}

void stop_freeing_lane_comms() { is_finalizing = true; }

}  // namespace nearfield::collectives

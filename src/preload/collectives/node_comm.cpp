#include "preload/collectives/node_comm.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <mutex>

#include "preload/collectives/settings.hpp"
#include "preload/mpi/handles.hpp"

namespace nearfield::collectives {

struct Card {
  ArenaAddress arena;
  std::uint64_t box, closed;  // offset in the arena; the counter's value
  std::uint64_t secret;       // the address of a copy of the nonce in the rank's own memory
  std::uint64_t selection;    // a digest: ranks that would choose different algorithms would wait for ever
};

namespace {

std::uint64_t secret = 0;

std::uint64_t number_of(MPI_Comm comm) {
  std::uint64_t number = 0;
  static_assert(sizeof comm <= sizeof number);
  std::memcpy(&number, &comm, sizeof comm);
  return number;
}

// The communicators that were used last, by handle. A communicator that one thread frees is none that another one uses
// meanwhile, so an entry that has the right handle before and after its node was read belongs to it.
struct Entry {
  std::atomic<std::uint64_t> comm{0};
  std::atomic<NodeComm*> node{nullptr};
};
Entry table[64];
std::mutex table_lock;

Entry& entry_of(MPI_Comm comm) {
  const std::uint64_t number = number_of(comm);
  return table[(number ^ number >> 6 ^ number >> 12) % 64];
}

void enter(MPI_Comm comm, NodeComm* node) {
  const std::lock_guard guard(table_lock);
  Entry& entry = entry_of(comm);
  entry.comm.store(0);
  entry.node.store(node);
  entry.comm.store(node ? number_of(comm) : 0);
}

NodeComm* look_up(MPI_Comm comm) {
  const Entry& entry = entry_of(comm);
  if (entry.comm.load(std::memory_order_acquire) != number_of(comm)) return nullptr;
  NodeComm* const node = entry.node.load(std::memory_order_acquire);
  return entry.comm.load(std::memory_order_acquire) == number_of(comm) ? node : nullptr;
}

int copy_nothing(MPI_Comm, int, void*, void*, void*, int* flag) {
  *flag = 0;
  return MPI_SUCCESS;
}

// Buffers may lie in a device's memory, which only the MPI library can copy from.
bool has_device_memory() {
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
  if (is_inter || ranks_ < 2 || ranks_ > max_ranks) state_ = State::left_to_mpi;
}

NodeComm* NodeComm::find(MPI_Comm comm) {
  NodeComm* node = look_up(comm);
  if (!node) {
    if (comm == MPI_COMM_NULL) return nullptr;
    static const int key = [] {
      int made = MPI_KEYVAL_INVALID;
      PMPI(MPI_Comm_create_keyval)(copy_nothing, forget, &made, nullptr);
      return made;
    }();
    int is_known = 0;
    if (PMPI(MPI_Comm_get_attr)(comm, key, &node, &is_known) != MPI_SUCCESS) return nullptr;
    if (!is_known) {
      node = new NodeComm(comm);
      if (PMPI(MPI_Comm_set_attr)(comm, key, node) != MPI_SUCCESS) std::abort();
    }
    enter(comm, node);
  }
  if (node->state_ == State::direct) return node;
  return node->state_ == State::counting ? node->count_call() : nullptr;
}

int NodeComm::forget(MPI_Comm comm, int, void* value, void*) {
  NodeComm* const node = static_cast<NodeComm*>(value);
  if (look_up(comm)) enter(comm, nullptr);
  if (node->state_ == State::direct)
    release_box(node->own_offset_, node->boxes_.data(), node->closed_.data(), node->ranks_);
  delete node;
  return MPI_SUCCESS;
}

NodeComm* NodeComm::count_call() {
  if (calls_++ < settings().after) return nullptr;  // a communicator that is used once costs nothing
  connect();
  return state_ == State::direct ? this : nullptr;
}

// Exchanges cards, maps the boxes, and agrees with the other ranks on the result.
void NodeComm::connect() {
  state_ = State::left_to_mpi;
  Card own{own_arena(), 0, 0, reinterpret_cast<std::uintptr_t>(&secret), settings().digest};
  secret = own.arena.nonce;
  if (own.arena.host && !has_device_memory()) own.box = take_box();
  if (own.box) own.closed = own_box(own.box)->closed.load(std::memory_order_relaxed);
  std::vector<Card> cards(static_cast<std::size_t>(ranks_));
  if (PMPI(MPI_Allgather)(&own, sizeof own, MPI_BYTE, cards.data(), sizeof own, MPI_BYTE, comm_) != MPI_SUCCESS) return;
  int is_mapped = map_boxes(cards), is_mapped_by_all = 0;
  PMPI(MPI_Allreduce)(&is_mapped, &is_mapped_by_all, 1, MPI_INT, MPI_MIN, comm_);
  if (is_mapped_by_all) {
    own_offset_ = own.box;
    port_->use_boxes(boxes_, rank_);
    selection_ = Selection(settings().selection, ranks_);
    exchange_ = std::make_unique<Exchange<LivePort>>(*port_, boxes_.data(), ranks_, rank_);
    state_ = State::direct;
  } else if (own.box) {
    release_box(own.box, nullptr, nullptr, 0);  // nobody has used it
  }
}

bool NodeComm::map_boxes(const std::vector<Card>& cards) {
  std::vector<pid_t> processes;
  for (const Card& card : cards) {
    if (card.box == 0 || card.arena.host != cards[0].arena.host || card.selection != cards[0].selection) return false;
    processes.push_back(static_cast<pid_t>(card.arena.pid));
    closed_.push_back(card.closed);
  }
  port_ = std::make_unique<LivePort>(comm_, processes);
  for (int rank = 0; rank < ranks_; ++rank) {
    const Card& card = cards[static_cast<std::size_t>(rank)];
    boxes_.push_back(peer_box(card.arena, card.box));
    std::uint64_t read = 0;
    if (!boxes_.back() || !port_->try_to_read(rank, &read, card.secret, sizeof read) || read != card.arena.nonce)
      return false;
  }
  return true;
}

}  // namespace nearfield::collectives

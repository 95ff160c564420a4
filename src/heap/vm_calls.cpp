// process_vm_readv and process_vm_writev, by which MPIs copy long messages inside a node: done in user space where the
// other process's memory is a shared heap, by the kernel as ever where it is not. Matching, order, collectives, threads
// and one-sided calls remain the MPI's own; it cannot tell the difference.
// Intel MPI makes these calls through syscall(), so that function is here as well.
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "heap/copy.hpp"
#include "heap/counts.hpp"
#include "heap/distance.hpp"
#include "heap/heap.hpp"
#include "heap/kernel_call.hpp"
#include "heap/peers.hpp"
#include "heap/settings.hpp"
#include "heap/start.hpp"

namespace nearfield::heap {
namespace {

// Walks through a list of pieces.
class Pieces {
 public:
  Pieces(const iovec* list, unsigned long count) : list_(list), left_(count) { skip_empty(); }
  bool done() const { return left_ == 0; }
  char* at() const { return static_cast<char*>(list_->iov_base) + inside_; }
  std::size_t length() const { return list_->iov_len - inside_; }
  void advance(std::size_t bytes) {
    inside_ += bytes;
    skip_empty();
  }

 private:
  void skip_empty() {
    while (left_ && inside_ == list_->iov_len) {
      ++list_;
      --left_;
      inside_ = 0;
    }
  }

  const iovec* list_;
  unsigned long left_;
  std::size_t inside_ = 0;
};

std::size_t total(const iovec* list, unsigned long count) {
  std::size_t bytes = 0;
  for (unsigned long i = 0; i < count; ++i) bytes += list[i].iov_len;
  return bytes;
}

Copy routine_for(const Peer& peer, std::size_t bytes) {
  static const Copy streaming = streaming_copy();
  const bool is_far = peer.apart.line_ns.load(std::memory_order_relaxed) >= settings().far_ns;
  return (is_far ? settings().far_stream : settings().stream).has(bytes) ? streaming : copy_plain;
}

// While a peer's memory is written to, its owner does not fork (region.hpp). Reading needs no such care: what a message
// holds was written before, and a fork leaves it in place.
class Writing {
 public:
  Writing(Peer& peer, bool writes) : header_(writes ? peer.header() : nullptr) {
    if (header_) header_->writers.fetch_add(1);
  }
  ~Writing() {
    if (header_) header_->writers.fetch_sub(1);
  }
  Writing(const Writing&) = delete;
  Writing& operator=(const Writing&) = delete;

 private:
  Header* header_;
};

// All of it, or -1 with the reason; then something may have been copied already, which the kernel copies again.
ssize_t copy_in_user_space(pid_t pid, Pieces here, Pieces there, std::size_t bytes, bool write, Way& way) {
  const auto first = reinterpret_cast<std::uintptr_t>(there.at());
  if (!in_regions(first)) return way = Way::kernel_not_in_heap, -1;
  Visit visit;
  Peer* peer = find_peer(pid, region_of(first));
  if (!peer) return way = Way::kernel_not_shared, -1;
  Writing writing(*peer, write);
  if (write && !peer->is_open()) return way = Way::kernel_not_shared, -1;
  const Copy copy = routine_for(*peer, bytes);
  way = copy == copy_plain ? Way::user_plain : Way::user_streaming;
  std::size_t done = 0;
  while (!here.done() && !there.done()) {
    const auto address = reinterpret_cast<std::uintptr_t>(there.at());
    std::size_t length = here.length() < there.length() ? here.length() : there.length(), contiguous = 0;
    if (!in_regions(address) || region_of(address) != peer->region()) return way = Way::kernel_not_in_heap, -1;
    const std::size_t offset = address - address_of(peer->region());
    if (!peer->has(offset, length)) return way = Way::kernel_not_in_heap, -1;
    char* mapped = peer->at(offset, write, contiguous);
    if (!mapped) return way = Way::kernel_not_shared, -1;
    if (length > contiguous) length = contiguous;
    if (done == 0 && !write) look_at_distance(*peer, mapped, length);
    if (write)
      copy(mapped, here.at(), length);
    else
      copy(here.at(), mapped, length);
    here.advance(length);
    there.advance(length);
    done += length;
  }
  return static_cast<ssize_t>(done);
}

}  // namespace

ssize_t move(long call, pid_t pid, const iovec* local, unsigned long local_count, const iovec* remote,
             unsigned long remote_count, unsigned long flags) {
  const std::size_t bytes = total(local, local_count);
  Way way = Way::kernel_not_in_heap;
  if (flags == 0 && bytes && total(remote, remote_count)) {
    beat();
    const bool write = call == SYS_process_vm_writev;
    const ssize_t done =
        copy_in_user_space(pid, Pieces(local, local_count), Pieces(remote, remote_count), bytes, write, way);
    if (done >= 0) {
      count_message(way, static_cast<std::size_t>(done));
      return done;
    }
  }
  const ssize_t done = kernel_copies(call, pid, local, local_count, remote, remote_count, flags);
  count_message(way, done > 0 ? static_cast<std::size_t>(done) : 0);
  return done;
}

}  // namespace nearfield::heap

extern "C" __attribute__((visibility("default"))) ssize_t process_vm_readv(pid_t pid, const iovec* local,
                                                                           unsigned long local_count,
                                                                           const iovec* remote,
                                                                           unsigned long remote_count,
                                                                           unsigned long flags) {
  return nearfield::heap::move(SYS_process_vm_readv, pid, local, local_count, remote, remote_count, flags);
}

extern "C" __attribute__((visibility("default"))) ssize_t process_vm_writev(pid_t pid, const iovec* local,
                                                                            unsigned long local_count,
                                                                            const iovec* remote,
                                                                            unsigned long remote_count,
                                                                            unsigned long flags) {
  return nearfield::heap::move(SYS_process_vm_writev, pid, local, local_count, remote, remote_count, flags);
}

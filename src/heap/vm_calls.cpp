// process_vm_readv and process_vm_writev, by which MPIs copy long messages inside a node: done in user space where the
// other process's memory is a shared heap, by the kernel as ever where it is not. Matching, order, collectives, threads
// and one-sided calls remain the MPI's own; it cannot tell the difference.
// Intel MPI makes these calls through syscall(), so that function is here as well.
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/copy.hpp"
#include "base/export.h"
#include "heap/counts.hpp"
#include "heap/distance.hpp"
#include "heap/heap.hpp"
#include "heap/help.hpp"
#include "heap/kernel_call.hpp"
#include "heap/pages.hpp"
#include "heap/peers.hpp"
#include "heap/progress.hpp"
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

constexpr std::size_t shortest_counted = 64;  // MPIs try the call with a few bytes when they start

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

// Does one call. `way` says how it went, or why the kernel must do it.
struct Call {
  pid_t pid;
  Pieces here, there;
  std::size_t bytes;
  bool write;
  Way way = Way::kernel_not_in_heap;
};

// Copies a message with its sender's help if it is one piece in a heap on either side. Returns whether it was copied.
bool copied_with_help(Call& call, Peer& peer, char* mapped, std::size_t length, Copy copy) {
  if (call.write || length != call.bytes || !settings().help.has(length)) return false;
  if (!in_regions(call.here.at()) || !peer.may_help()) return false;
  const auto there = reinterpret_cast<std::uintptr_t>(call.there.at());
  const Helped helped = copy_with_help(peer, call.here.at(), mapped, there, length, copy);
  if (helped == Helped::helped) call.way = Way::user_both;
  return helped != Helped::not_asked;
}

// Copies as far as both sides and the mapping are contiguous. Returns how much; 0 if the kernel must copy.
std::size_t copy_stretch(Call& call, Peer& peer, Copy copy) {
  const auto address = reinterpret_cast<std::uintptr_t>(call.there.at());
  std::size_t length = call.here.length() < call.there.length() ? call.here.length() : call.there.length();
  if (!in_regions(address) || region_of(address) != peer.region()) return 0;
  const std::size_t offset = address - address_of(peer.region());
  if (!peer.has(offset, length)) return 0;
  std::size_t contiguous = 0;
  char* mapped = peer.at(offset, call.write, contiguous);
  if (!mapped) return 0;
  if (length > contiguous) length = contiguous;
  if (!call.write) look_at_distance(peer, mapped, length);
  if (copied_with_help(call, peer, mapped, length, copy)) return length;
  if (call.write) {
    touch_to_write(mapped, length);
    copy(mapped, call.here.at(), length);
  } else {
    copy(call.here.at(), mapped, length);
  }
  return length;
}

// Copies all of it, or returns -1; then the kernel copies again what was already copied.
ssize_t copy_in_user_space(Call& call) {
  const auto first = reinterpret_cast<std::uintptr_t>(call.there.at());
  if (!in_regions(first)) return -1;
  Visit visit;
  Peer* peer = find_peer(call.pid, region_of(first));
  const Writing writing(call.write ? peer : nullptr);
  if (!peer || (call.write && !peer->is_open())) return call.way = Way::kernel_not_shared, -1;
  const Copy copy = routine_for(*peer, call.bytes);
  call.way = copy == copy_plain ? Way::user_plain : Way::user_streaming;
  std::size_t done = 0;
  while (!call.here.done() && !call.there.done()) {
    const std::size_t length = copy_stretch(call, *peer, copy);
    if (!length) return call.way = Way::kernel_not_shared, -1;
    call.here.advance(length);
    call.there.advance(length);
    done += length;
  }
  return static_cast<ssize_t>(done);
}

}  // namespace

ssize_t move(long number, pid_t pid, const iovec* local, unsigned long local_count, const iovec* remote,
             unsigned long remote_count, unsigned long flags) {
  Call call{
      pid, {local, local_count}, {remote, remote_count}, total(local, local_count), number == SYS_process_vm_writev};
  ssize_t done = -1;
  if (flags == 0 && !call.here.done() && !call.there.done()) {
    beat();
    watch_progress();
    done = copy_in_user_space(call);
  }
  if (done >= 0) {
    make_huge_pages(static_cast<std::size_t>(done));
    count_message(call.way, static_cast<std::size_t>(done));
    return done;
  }
  done = kernel_copies(number, pid, local, local_count, remote, remote_count, flags);
  if (call.bytes >= shortest_counted) count_message(call.way, done > 0 ? static_cast<std::size_t>(done) : 0);
  return done;
}

}  // namespace nearfield::heap

NEARFIELD_EXPORT ssize_t process_vm_readv(pid_t pid, const iovec* local, unsigned long local_count, const iovec* remote,
                                          unsigned long remote_count, unsigned long flags) {
  return nearfield::heap::move(SYS_process_vm_readv, pid, local, local_count, remote, remote_count, flags);
}

NEARFIELD_EXPORT ssize_t process_vm_writev(pid_t pid, const iovec* local, unsigned long local_count,
                                           const iovec* remote, unsigned long remote_count, unsigned long flags) {
  return nearfield::heap::move(SYS_process_vm_writev, pid, local, local_count, remote, remote_count, flags);
}

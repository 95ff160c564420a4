// process_vm_readv and process_vm_writev, by which MPIs copy long messages inside a node: done in user space where the
// other process's memory is a shared heap, by the kernel as ever where it is not. Matching, order, collectives, threads
// and one-sided calls remain the MPI's own; it cannot tell the difference.
// Intel MPI makes these calls through syscall(); kernel_call.cpp has that function.
#include <dlfcn.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

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
#include "heap/sharing.hpp"
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
  unsigned long count() const { return left_; }
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
constexpr std::size_t min_asked_for = 4096;   // bytes: a shorter message is not worth sharing
constexpr std::size_t min_mixed = 16384;      // bytes: from here on a copy in part by the kernel is worth it

std::size_t total(const iovec* list, unsigned long count) {
  std::size_t bytes = 0;
  for (unsigned long i = 0; i < count; ++i) bytes += list[i].iov_len;
  return bytes;
}

// Returns whether this code is a library's that MPIs copy by. `caller` is nullptr if that is not known.
bool is_of_mpi(const void* caller) {
  static constexpr const char* libraries[] = {"libmpi", "libopen-pal", "mca_btl_", "mca_smsc_", "libuct", "libucp"};
  static std::atomic<const void*> latest{nullptr};  // of those that are
  if (!caller || caller == latest.load(std::memory_order_relaxed)) return caller != nullptr;
  Dl_info info;
  if (!dladdr(caller, &info) || !info.dli_fname) return false;
  const char* slash = std::strrchr(info.dli_fname, '/');
  const char* name = slash ? slash + 1 : info.dli_fname;
  for (const char* library : libraries)
    if (std::strncmp(name, library, std::strlen(library)) == 0) {
      latest.store(caller, std::memory_order_relaxed);
      return true;
    }
  return false;
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
  bool writes;
  bool is_message;  // an MPI library makes the call, so that the program uses neither side's memory meanwhile
  Way way = Way::kernel_not_in_heap;
};

// Copies a message with its sender's help if it is one piece in shared pages on both sides. Returns whether it was
// copied.
bool copied_with_help(Call& call, Peer& peer, char* mapped, std::size_t length, Copy copy) {
  if (call.writes || length != call.bytes || !settings().help.has(length)) return false;
  if (!in_heap(call.here.at()) || !peer.may_help()) return false;
  share_message(call.here.at(), length, call.is_message);
  if (!is_shared(call.here.at(), length)) return false;
  const auto there = reinterpret_cast<std::uintptr_t>(call.there.at());
  const Helped helped = copy_with_help(peer, call.here.at(), mapped, there, length, copy);
  if (helped == Helped::helped) call.way = Way::user_both;
  return helped != Helped::not_asked;
}

// Lets the kernel copy a stretch. Returns how much it copied; 0 or less if it fails.
ssize_t copy_by_kernel(Call& call, std::size_t length) {
  const iovec here{call.here.at(), length}, there{call.there.at(), length};
  return kernel_copies(call.writes ? SYS_process_vm_writev : SYS_process_vm_readv, call.pid, &here, 1, &there, 1, 0);
}

// Copies as far as both sides, the pages' kind and the mapping are contiguous. Returns how much; 0 or less if that fails.
ssize_t copy_stretch(Call& call, Peer& peer, Copy copy) {
  const auto address = reinterpret_cast<std::uintptr_t>(call.there.at());
  std::size_t length = call.here.length() < call.there.length() ? call.here.length() : call.there.length();
  const std::size_t shared = peer.shared_bytes(address, length);
  if (!shared) return copy_by_kernel(call, peer.private_bytes(address, length));
  std::size_t contiguous = 0;
  char* mapped = peer.at(address - heap_begin, call.writes, contiguous);
  if (!mapped) return copy_by_kernel(call, length);
  if (length > shared) length = shared;
  if (length > contiguous) length = contiguous;
  if (!call.writes) look_at_distance(peer, mapped, length);
  peer.note_copied(length);
  if (copied_with_help(call, peer, mapped, length, copy)) return static_cast<ssize_t>(length);
  if (call.writes) {
    touch_to_write(mapped, length);
    copy(mapped, call.here.at(), length);
  } else {
    copy(call.here.at(), mapped, length);
  }
  return static_cast<ssize_t>(length);
}

// Returns how many bytes of a message lie in shared pages.
std::size_t count_shared(Peer& peer, Pieces there) {
  std::size_t shared = 0;
  while (!there.done()) {
    const auto at = reinterpret_cast<std::uintptr_t>(there.at());
    std::size_t length = peer.shared_bytes(at, there.length());
    shared += length;
    if (!length) length = peer.private_bytes(at, there.length());
    there.advance(length);
  }
  return shared;
}

// Copies all of it, or as much as the kernel would before it meets memory that is not there.
ssize_t copy_stretches(Call& call, Peer& peer) {
  const Copy copy = routine_for(peer, call.bytes);
  call.way = copy == copy_plain ? Way::user_plain : Way::user_streaming;
  std::size_t done = 0;
  while (!call.here.done() && !call.there.done()) {
    const ssize_t length = copy_stretch(call, peer, copy);
    if (length <= 0) return done ? static_cast<ssize_t>(done) : -1;
    call.here.advance(static_cast<std::size_t>(length));
    call.there.advance(static_cast<std::size_t>(length));
    done += static_cast<std::size_t>(length);
  }
  return static_cast<ssize_t>(done);
}

// Returns whether the peer is to be asked to share a message that is not shared, or not wholly.
bool is_worth_sharing(const Call& call, Peer& peer) {
  return call.there.count() == 1 && call.bytes >= min_asked_for && peer.may_share();
}

// Copies a message from or to a peer with a heap: what is shared in user space if that is enough of it, the rest by the
// kernel.
ssize_t copy_with_peer(Call& call, Peer& peer, const Original& original) {
  const Copying copying(peer, call.writes);
  const std::size_t shared = count_shared(peer, call.there);
  if (shared == call.bytes) return copy_stretches(call, peer);
  const bool is_mixed = shared >= min_mixed && shared >= call.bytes / 2;
  if (!is_worth_sharing(call, peer)) return is_mixed ? copy_stretches(call, peer) : original.by_kernel();
  const auto from = reinterpret_cast<std::uintptr_t>(call.there.at());
  const std::size_t bytes = call.there.length();
  ssize_t done;
  {
    // A message that this process writes must not meet pages that move.
    const ShareRequest request(peer, from, bytes, call.is_message && !call.writes);
    done = is_mixed ? copy_stretches(call, peer) : original.by_kernel();
  }
  peer.was_asked_to_share();
  return done;
}

}  // namespace

ssize_t move(const Original& original, const void* caller) {
  // A message came although this library's MPI_Init was not called. MPIs also read their own memory, within MPI_Init, to
  // see whether they may.
  if (!heap_is_open() && original.pid != getpid() && is_of_mpi(caller)) open_when_initialized();
  Call call{original.pid,
            {original.local, original.local_count},
            {original.remote, original.remote_count},
            total(original.local, original.local_count),
            original.number == SYS_process_vm_writev,
            is_of_mpi(caller)};
  if (original.flags != 0 || call.here.done() || call.there.done() || !in_heap(call.there.at())) {
    const ssize_t done = original.by_kernel();
    if (call.bytes >= shortest_counted) count_message(call.way, done > 0 ? static_cast<std::size_t>(done) : 0);
    return done;
  }
  beat();
  watch_progress();
  answer_wish();
  call.way = Way::kernel_not_shared;
  ssize_t done;
  {
    Visit visit;
    Peer* peer = find_peer(call.pid);
    done = peer ? copy_with_peer(call, *peer, original) : original.by_kernel();
  }
  if (done > 0) make_huge_pages(static_cast<std::size_t>(done));
  if (call.bytes >= shortest_counted) count_message(call.way, done > 0 ? static_cast<std::size_t>(done) : 0);
  return done;
}

}  // namespace nearfield::heap

NEARFIELD_EXPORT ssize_t process_vm_readv(pid_t pid, const iovec* local, unsigned long local_count, const iovec* remote,
                                          unsigned long remote_count, unsigned long flags) {
  return nearfield::heap::move({SYS_process_vm_readv, pid, local, local_count, remote, remote_count, flags},
                               __builtin_return_address(0));
}

NEARFIELD_EXPORT ssize_t process_vm_writev(pid_t pid, const iovec* local, unsigned long local_count,
                                           const iovec* remote, unsigned long remote_count, unsigned long flags) {
  return nearfield::heap::move({SYS_process_vm_writev, pid, local, local_count, remote, remote_count, flags},
                               __builtin_return_address(0));
}

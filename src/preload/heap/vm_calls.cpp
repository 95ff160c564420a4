// Interposes on process_vm_readv and process_vm_writev, by which MPIs copy long messages inside a node (cross-memory
// attach): copies in user space if the other process's memory lies in shared pages of its heap, else by the kernel.
// Message matching and order, collectives, threads and one-sided calls remain the MPI's; the MPI cannot observe a
// difference. Intel MPI makes these calls through syscall(), which kernel_call.cpp replaces.
#include <dlfcn.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

#include "base/copy.hpp"
#include "base/export.h"
#include "base/shared_heap.h"
#include "preload/heap/bounce_copy.hpp"
#include "preload/heap/cooperative_copy.hpp"
#include "preload/heap/copy_service.hpp"
#include "preload/heap/counts.hpp"
#include "preload/heap/distance.hpp"
#include "preload/heap/heap.hpp"
#include "preload/heap/kernel_call.hpp"
#include "preload/heap/pages.hpp"
#include "preload/heap/peers.hpp"
#include "preload/heap/pieces.hpp"
#include "preload/heap/progress.hpp"
#include "preload/heap/settings.hpp"
#include "preload/heap/sharing.hpp"
#include "preload/heap/start.hpp"

namespace nearfield::heap {
namespace {

constexpr std::size_t min_counted_bytes = 64;           // bytes; at start-up, MPIs test the calls with fewer
constexpr std::size_t min_shared_message = 4096;        // bytes; sharing does not pay for shorter messages
constexpr std::size_t min_partly_shared_bytes = 16384;  // bytes in shared pages: with fewer, the kernel copies all

std::size_t total_bytes(const iovec* list, unsigned long count) {
  std::size_t bytes = 0;
  for (unsigned long i = 0; i < count; ++i) bytes += list[i].iov_len;
  return bytes;
}

// Returns whether `caller`, a code address, lies in a library by which MPIs copy; false if it is nullptr, for unknown.
bool is_in_mpi_library(const void* caller) {
  static constexpr const char* libraries[] = {
      "libmpi", "libopen-pal", "mca_btl_", "mca_smsc_", "libuct", "libucp", "libnearfield_collectives"};
  static std::atomic<const void*> latest{nullptr};  // the last caller in such a library
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

Copy copy_routine_for(const Peer& peer, std::size_t bytes) {
  static const Copy streaming = streaming_copy();
  const bool is_far = peer.latency.line_ns.load(std::memory_order_relaxed) >= settings().far_threshold_ns;
  return (is_far ? settings().stream_when_far : settings().stream).contains(bytes) ? streaming : copy_plain;
}

// A call of process_vm_readv or process_vm_writev, and its progress. `path`: how the message is copied, or why the
// kernel copies it.
struct Transfer {
  pid_t pid;
  IovecPosition local, remote;
  std::size_t bytes;
  bool writes;
  bool is_message;   // an MPI library makes the call, so neither program accesses the message's memory during the call
  OwnerState owner;  // of the other process's memory
  CopyPath path = CopyPath::kernel_not_in_heap;

  void advance(std::size_t length) {
    local.advance(length);
    remote.advance(length);
  }
};

// Copies a message cooperatively with its sender (cooperative_copy.hpp) if the message is contiguous and lies in shared
// pages on both sides. Returns whether the message was copied.
bool try_cooperative_copy(Transfer& call, Peer& peer, char* mapped, std::size_t length, Copy copy) {
  if (call.writes || length != call.bytes || !settings().cooperate.contains(length)) return false;
  if (call.owner == OwnerState::is_busy || !in_heap(call.local.at())) return false;
  if (!peer.may_cooperate() && call.owner != OwnerState::waits) return false;
  share_message(call.local.at(), length, call.is_message);
  if (!is_shared(call.local.at(), length)) return false;
  const auto remote = reinterpret_cast<std::uintptr_t>(call.remote.at());
  const Cooperation result = cooperative_copy(peer, call.local.at(), mapped, remote, length, copy);
  if (result == Cooperation::cooperated) call.path = CopyPath::user_cooperative;
  return result != Cooperation::not_requested;
}

// Copies a contiguous part of a message without shared pages: through the peer's bounce buffer, or by the kernel.
// Returns the number of bytes copied; 0 or less on failure.
ssize_t copy_private(Transfer& call, Peer& peer, std::size_t length) {
  if (!call.writes && call.is_message) {
    const auto from = reinterpret_cast<std::uintptr_t>(call.remote.at());
    if (const std::size_t done = read_by_bounce(peer, call.local.at(), from, length)) return static_cast<ssize_t>(done);
  }
  const iovec local{call.local.at(), length}, remote{call.remote.at(), length};
  return copy_without_heap(call.writes ? SYS_process_vm_writev : SYS_process_vm_readv, call.pid, &local, 1, &remote, 1,
                           0);
}

// Copies a message, or the rest of it, without shared pages. Returns the number of bytes copied; -1 on failure.
ssize_t copy_private_message(Transfer& call, Peer& peer, const CmaCall& original) {
  if (!peer.bounce()) return original.run_without_heap();
  std::size_t done = 0;
  while (!call.local.is_at_end() && !call.remote.is_at_end()) {
    const ssize_t length = copy_private(call, peer, min_contiguous_bytes(call.local, call.remote));
    if (length <= 0) return done ? static_cast<ssize_t>(done) : -1;
    call.advance(static_cast<std::size_t>(length));
    done += static_cast<std::size_t>(length);
  }
  return static_cast<ssize_t>(done);
}

// Copies the next part of a message that is contiguous on both sides and lies in pages of one kind, shared or private,
// and in one window. Returns the number of bytes copied; 0 or less on failure.
ssize_t copy_stretch(Transfer& call, Peer& peer, Copy copy) {
  const auto address = reinterpret_cast<std::uintptr_t>(call.remote.at());
  std::size_t length = min_contiguous_bytes(call.local, call.remote);
  const std::size_t shared = peer.leading_shared_bytes(address, length);
  if (!shared) return copy_private(call, peer, peer.leading_private_bytes(address, length));
  std::size_t contiguous = 0;
  char* mapped = peer.mapped_address(address - heap_begin, call.writes, contiguous);
  if (!mapped) return copy_private(call, peer, length);
  if (length > shared) length = shared;
  if (length > contiguous) length = contiguous;
  if (!call.writes) sample_line_latency(peer, mapped, length);
  peer.add_copied_bytes(length);
  if (try_cooperative_copy(call, peer, mapped, length, copy)) return static_cast<ssize_t>(length);
  if (call.writes) {
    prefault_writable(mapped, length);
    copy(mapped, call.local.at(), length);
  } else {
    copy(call.local.at(), mapped, length);
  }
  return static_cast<ssize_t>(length);
}

// Returns how many bytes of a message lie in shared pages of the peer.
std::size_t count_shared_bytes(Peer& peer, IovecPosition remote) {
  std::size_t shared = 0;
  while (!remote.is_at_end()) {
    const auto at = reinterpret_cast<std::uintptr_t>(remote.at());
    std::size_t length = peer.leading_shared_bytes(at, remote.length());
    shared += length;
    if (!length) length = peer.leading_private_bytes(at, remote.length());
    remote.advance(length);
  }
  return shared;
}

// Copies a message. Returns the number of bytes copied, fewer than the message's if unmapped memory follows, as
// process_vm_readv does; -1 if none could be copied.
ssize_t copy_stretches(Transfer& call, Peer& peer) {
  const Copy copy = copy_routine_for(peer, call.bytes);
  call.path = copy == copy_plain ? CopyPath::user : CopyPath::user_streaming;
  std::size_t done = 0;
  while (!call.local.is_at_end() && !call.remote.is_at_end()) {
    const ssize_t length = copy_stretch(call, peer, copy);
    if (length <= 0) return done ? static_cast<ssize_t>(done) : -1;
    call.advance(static_cast<std::size_t>(length));
    done += static_cast<std::size_t>(length);
  }
  return static_cast<ssize_t>(done);
}

// Returns whether to request that the peer shares the pages of a message not all of which are shared.
bool should_request_share(const Transfer& call, Peer& peer) {
  return call.remote.remaining_elements() == 1 && call.bytes >= min_shared_message && peer.may_request_share();
}

// Copies a message from or to the heap of a peer: in user space if all of its pages are shared; if at least half of it
// and min_partly_shared_bytes bytes are, those parts in user space and the rest by the kernel; else by the kernel.
// Returns the number of bytes copied; -1 on failure.
ssize_t copy_with_peer(Transfer& call, Peer& peer, const CmaCall& original) {
  const Copying copying(peer, call.writes);
  const std::size_t shared = count_shared_bytes(peer, call.remote);
  if (shared == call.bytes) return copy_stretches(call, peer);
  const bool is_mixed = shared >= min_partly_shared_bytes && shared >= call.bytes / 2;
  if (!should_request_share(call, peer))
    return is_mixed ? copy_stretches(call, peer) : copy_private_message(call, peer, original);
  const auto from = reinterpret_cast<std::uintptr_t>(call.remote.at());
  const std::size_t bytes = call.remote.length();
  ssize_t done;
  {
    // While this process writes a message to the peer, the peer's pages must not move: only a hint is posted.
    const ShareRequest request(peer, from, bytes, call.is_message && !call.writes);
    done = is_mixed ? copy_stretches(call, peer) : copy_private_message(call, peer, original);
  }
  peer.record_share_request();
  return done;
}

}  // namespace

ssize_t cma_transfer(const CmaCall& original, const void* caller, OwnerState owner) {
  // An MPI copies a message, but MPI_Init has not passed through mpi_calls.cpp. Copies from this process itself do not
  // count: inside MPI_Init, MPIs test on their own memory whether they may make the call.
  if (!heap_is_open() && original.pid != getpid() && is_in_mpi_library(caller)) open_when_initialized();
  Transfer call{original.pid,
                {original.local, original.local_count},
                {original.remote, original.remote_count},
                total_bytes(original.local, original.local_count),
                original.number == SYS_process_vm_writev,
                is_in_mpi_library(caller),
                owner};
  const bool is_in_heap = !call.remote.is_at_end() && in_heap(call.remote.at());
  const bool may_bounce = serves_copies() && heap_is_open();
  if (original.flags != 0 || call.local.is_at_end() || call.remote.is_at_end() || !(is_in_heap || may_bounce)) {
    const ssize_t done = original.run_without_heap();
    if (call.bytes >= min_counted_bytes) count_message(call.path, done > 0 ? static_cast<std::size_t>(done) : 0);
    return done;
  }
  increment_tick();
  register_progress_callback();
  handle_share_hint();
  if (is_in_heap) call.path = CopyPath::kernel_not_shared;
  ssize_t done;
  {
    PeerGuard guard;
    Peer* peer = find_peer(call.pid, is_in_heap);
    done = !peer        ? original.run_without_heap()
           : is_in_heap ? copy_with_peer(call, *peer, original)
                        : copy_private_message(call, *peer, original);
  }
  if (done > 0) make_huge_pages(static_cast<std::size_t>(done));
  if (call.bytes >= min_counted_bytes) count_message(call.path, done > 0 ? static_cast<std::size_t>(done) : 0);
  return done;
}

}  // namespace nearfield::heap

NEARFIELD_EXPORT ssize_t process_vm_readv(pid_t pid, const iovec* local, unsigned long local_count, const iovec* remote,
                                          unsigned long remote_count, unsigned long flags) {
  return nearfield::heap::cma_transfer({SYS_process_vm_readv, pid, local, local_count, remote, remote_count, flags},
                                       __builtin_return_address(0));
}

NEARFIELD_EXPORT ssize_t process_vm_writev(pid_t pid, const iovec* local, unsigned long local_count,
                                           const iovec* remote, unsigned long remote_count, unsigned long flags) {
  return nearfield::heap::cma_transfer({SYS_process_vm_writev, pid, local, local_count, remote, remote_count, flags},
                                       __builtin_return_address(0));
}

NEARFIELD_EXPORT ssize_t nearfield_heap_read(pid_t process, void* to, uintptr_t from, size_t bytes, int owner_waits) {
  const iovec local{to, bytes}, remote{reinterpret_cast<void*>(from), bytes};
  return nearfield::heap::cma_transfer(
      {SYS_process_vm_readv, process, &local, 1, &remote, 1, 0}, __builtin_return_address(0),
      owner_waits ? nearfield::heap::OwnerState::waits : nearfield::heap::OwnerState::is_busy);
}

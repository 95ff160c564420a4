// Interposes on process_vm_readv and process_vm_writev, by which MPIs copy long messages inside a node (cross-memory
// attach): copies in user space if the other process's memory lies in shared pages of its heap, else by the kernel.
// Message matching and order, collectives, threads and one-sided calls are still handled by the MPI library, which
// cannot observe a difference. Intel MPI makes these calls through syscall(), which kernel_call.cpp replaces.
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
constexpr std::size_t min_shared_message_bytes = 4096;  // bytes; sharing does not pay for shorter messages
constexpr std::size_t min_partly_shared_bytes = 16384;  // bytes in shared pages: with fewer, the kernel copies all

std::size_t total_bytes(const iovec* list, unsigned long count) {
  std::size_t bytes = 0;
  for (unsigned long i = 0; i < count; ++i) bytes += list[i].iov_len;
  return bytes;
}

// Returns whether `caller`, a code address, lies in a library by which MPIs copy; false if it is nullptr, which stands
// for an unknown address.
bool is_in_mpi_library(const void* caller) {
  static constexpr const char* libraries[] = {
      "libmpi", "libopen-pal", "mca_btl_", "mca_smsc_", "libuct", "libucp", "libnearfield_collectives"};
  static std::atomic<const void*> last_mpi_caller{nullptr};  // the last caller in such a library
  if (!caller || caller == last_mpi_caller.load(std::memory_order_relaxed)) return caller != nullptr;
  Dl_info info;
  if (!dladdr(caller, &info) || !info.dli_fname) return false;
  const char* slash = std::strrchr(info.dli_fname, '/');
  const char* name = slash ? slash + 1 : info.dli_fname;
  for (const char* library : libraries)
    if (std::strncmp(name, library, std::strlen(library)) == 0) {
      last_mpi_caller.store(caller, std::memory_order_relaxed);
      return true;
    }
  return false;
}

CopyFunction copy_routine_for(const Peer& peer, std::size_t bytes) {
  static const CopyFunction streaming = streaming_copy();
  const bool is_far = peer.latency.line_latency_ns.load(std::memory_order_relaxed) >= settings().far_threshold_ns;
  return (is_far ? settings().streaming_sizes_when_far : settings().streaming_sizes).contains(bytes) ? streaming
                                                                                                     : copy_plain;
}

// A call of process_vm_readv or process_vm_writev, and its progress. `copy_path`: how the message is copied, or why the
// kernel copies it.
struct MessageTransfer {
  pid_t pid;
  IovecPosition local, remote;
  std::size_t bytes;
  bool is_write;
  // an MPI library makes the call, so neither program accesses the message's memory during the call
  bool is_mpi_message;
  OwnerActivity owner_activity;  // of the other process's memory
  CopyPath copy_path = CopyPath::kernel_not_in_heap;

  void advance(std::size_t length) {
    local.advance(length);
    remote.advance(length);
  }
};

// Copies a message cooperatively with its sender (cooperative_copy.hpp) if the message is contiguous and lies in shared
// pages on both sides. Returns whether the message was copied.
bool try_cooperative_copy(MessageTransfer& transfer, Peer& peer, char* mapped, std::size_t length, CopyFunction copy) {
  if (transfer.is_write || length != transfer.bytes || !settings().cooperative_copy_sizes.contains(length))
    return false;
  if (transfer.owner_activity == OwnerActivity::busy || !is_in_heap(transfer.local.address())) return false;
  if (!peer.may_cooperate() && transfer.owner_activity != OwnerActivity::waiting) return false;
  share_message(transfer.local.address(), length, transfer.is_mpi_message);
  if (!is_shared(transfer.local.address(), length)) return false;
  const auto remote = reinterpret_cast<std::uintptr_t>(transfer.remote.address());
  const Cooperation result = copy_cooperatively(peer, transfer.local.address(), mapped, remote, length, copy);
  if (result == Cooperation::cooperated) transfer.copy_path = CopyPath::user_cooperative;
  return result != Cooperation::not_requested;
}

// Copies a contiguous part of a message without shared pages: through the peer's bounce buffer, or by the kernel.
// Returns the number of bytes copied; 0 or less on failure.
ssize_t copy_private(MessageTransfer& transfer, Peer& peer, std::size_t length) {
  if (!transfer.is_write && transfer.is_mpi_message) {
    const auto from = reinterpret_cast<std::uintptr_t>(transfer.remote.address());
    if (const std::size_t done = read_through_bounce_buffer(peer, transfer.local.address(), from, length))
      return static_cast<ssize_t>(done);
  }
  const iovec local{transfer.local.address(), length}, remote{transfer.remote.address(), length};
  return copy_without_heap(transfer.is_write ? SYS_process_vm_writev : SYS_process_vm_readv, transfer.pid, &local, 1,
                           &remote, 1, 0);
}

// Copies a message, or the rest of it, without shared pages. Returns the number of bytes copied; -1 on failure.
ssize_t copy_private_message(MessageTransfer& transfer, Peer& peer, const CmaCall& original) {
  if (!peer.bounce_buffer()) return original.run_without_heap();
  std::size_t done = 0;
  while (!transfer.local.is_at_end() && !transfer.remote.is_at_end()) {
    const ssize_t length = copy_private(transfer, peer, min_contiguous_bytes(transfer.local, transfer.remote));
    if (length <= 0) return done ? static_cast<ssize_t>(done) : -1;
    transfer.advance(static_cast<std::size_t>(length));
    done += static_cast<std::size_t>(length);
  }
  return static_cast<ssize_t>(done);
}

// Copies the next part of a message that is contiguous on both sides and lies in pages of one kind, shared or private,
// and in one window. Returns the number of bytes copied; 0 or less on failure.
ssize_t copy_stretch(MessageTransfer& transfer, Peer& peer, CopyFunction copy) {
  const auto address = reinterpret_cast<std::uintptr_t>(transfer.remote.address());
  std::size_t length = min_contiguous_bytes(transfer.local, transfer.remote);
  const std::size_t shared = peer.leading_shared_bytes(address, length);
  if (!shared) return copy_private(transfer, peer, peer.leading_private_bytes(address, length));
  std::size_t contiguous = 0;
  char* mapped = peer.mapped_address(address - heap_begin, transfer.is_write, contiguous);
  if (!mapped) return copy_private(transfer, peer, length);
  if (length > shared) length = shared;
  if (length > contiguous) length = contiguous;
  if (!transfer.is_write) sample_line_latency(peer, mapped, length);
  peer.add_copied_bytes(length);
  if (try_cooperative_copy(transfer, peer, mapped, length, copy)) return static_cast<ssize_t>(length);
  if (transfer.is_write) {
    prefault_writable(mapped, length);
    copy(mapped, transfer.local.address(), length);
  } else {
    copy(transfer.local.address(), mapped, length);
  }
  return static_cast<ssize_t>(length);
}

// Returns how many bytes of a message lie in shared pages of the peer.
std::size_t count_shared_bytes(Peer& peer, IovecPosition remote) {
  std::size_t shared = 0;
  while (!remote.is_at_end()) {
    const auto at = reinterpret_cast<std::uintptr_t>(remote.address());
    std::size_t length = peer.leading_shared_bytes(at, remote.contiguous_bytes());
    shared += length;
    if (!length) length = peer.leading_private_bytes(at, remote.contiguous_bytes());
    remote.advance(length);
  }
  return shared;
}

// Copies a message. Returns the number of bytes copied, fewer than the message's if unmapped memory follows, as
// process_vm_readv does; -1 if none could be copied.
ssize_t copy_stretches(MessageTransfer& transfer, Peer& peer) {
  const CopyFunction copy = copy_routine_for(peer, transfer.bytes);
  transfer.copy_path = copy == copy_plain ? CopyPath::user_plain : CopyPath::user_streaming;
  std::size_t done = 0;
  while (!transfer.local.is_at_end() && !transfer.remote.is_at_end()) {
    const ssize_t length = copy_stretch(transfer, peer, copy);
    if (length <= 0) return done ? static_cast<ssize_t>(done) : -1;
    transfer.advance(static_cast<std::size_t>(length));
    done += static_cast<std::size_t>(length);
  }
  return static_cast<ssize_t>(done);
}

// Returns whether to request that the peer shares the pages of a message. Called if not all of its pages are shared.
bool should_request_share(const MessageTransfer& transfer, Peer& peer) {
  return transfer.remote.remaining_elements() == 1 && transfer.bytes >= min_shared_message_bytes &&
         peer.may_request_share();
}

// Copies a message from or to the heap of a peer. If all of its pages are shared, copies it in user space. If at least
// half of it and at least min_partly_shared_bytes bytes are in shared pages, copies those parts in user space and the
// rest by the kernel; else all by the kernel. Returns the number of bytes copied; -1 on failure.
ssize_t copy_with_peer(MessageTransfer& transfer, Peer& peer, const CmaCall& original) {
  const CopyAnnouncement copying(peer, transfer.is_write);
  const std::size_t shared = count_shared_bytes(peer, transfer.remote);
  if (shared == transfer.bytes) return copy_stretches(transfer, peer);
  const bool is_mixed = shared >= min_partly_shared_bytes && shared >= transfer.bytes / 2;
  if (!should_request_share(transfer, peer))
    return is_mixed ? copy_stretches(transfer, peer) : copy_private_message(transfer, peer, original);
  const auto from = reinterpret_cast<std::uintptr_t>(transfer.remote.address());
  const std::size_t bytes = transfer.remote.contiguous_bytes();
  ssize_t done;
  {
    // While this process writes a message to the peer, the peer's pages must not move: only a hint is posted.
    const ShareRequest request(peer, from, bytes, transfer.is_mpi_message && !transfer.is_write);
    done = is_mixed ? copy_stretches(transfer, peer) : copy_private_message(transfer, peer, original);
  }
  peer.record_share_request();
  return done;
}

}  // namespace

ssize_t cma_transfer(const CmaCall& original, const void* caller, OwnerActivity owner_activity) {
  // If the MPI library copies from or to another process while the heap is not open, MPI_Init has bypassed
  // mpi_calls.cpp, which opens the heap. Copies within this process do not show this: inside MPI_Init, MPIs try the call
  // on their own memory, to find out whether the kernel permits it.
  if (!is_heap_open() && original.pid != getpid() && is_in_mpi_library(caller)) open_heap_if_enabled();
  MessageTransfer transfer{original.pid,
                           {original.local, original.local_count},
                           {original.remote, original.remote_count},
                           total_bytes(original.local, original.local_count),
                           original.syscall_number == SYS_process_vm_writev,
                           is_in_mpi_library(caller),
                           owner_activity};
  const bool is_remote_in_heap = !transfer.remote.is_at_end() && is_in_heap(transfer.remote.address());
  const bool may_bounce = serves_copies() && is_heap_open();
  if (original.flags != 0 || transfer.local.is_at_end() || transfer.remote.is_at_end() ||
      !(is_remote_in_heap || may_bounce)) {
    const ssize_t done = original.run_without_heap();
    if (transfer.bytes >= min_counted_bytes)
      count_message(transfer.copy_path, done > 0 ? static_cast<std::size_t>(done) : 0);
    return done;
  }
  increment_tick();
  register_progress_callback();
  handle_share_hint();
  if (is_remote_in_heap) transfer.copy_path = CopyPath::kernel_not_shared;
  ssize_t done;
  {
    PeerGuard guard;
    Peer* peer = find_peer(transfer.pid, is_remote_in_heap);
    done = !peer               ? original.run_without_heap()
           : is_remote_in_heap ? copy_with_peer(transfer, *peer, original)
                               : copy_private_message(transfer, *peer, original);
  }
  if (done > 0) make_huge_pages(static_cast<std::size_t>(done));
  if (transfer.bytes >= min_counted_bytes)
    count_message(transfer.copy_path, done > 0 ? static_cast<std::size_t>(done) : 0);
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

NEARFIELD_EXPORT ssize_t nearfield_heap_read(pid_t process, void* to, uintptr_t from, size_t bytes,
                                             int is_owner_waiting) {
  const iovec local{to, bytes}, remote{reinterpret_cast<void*>(from), bytes};
  return nearfield::heap::cma_transfer(
      {SYS_process_vm_readv, process, &local, 1, &remote, 1, 0}, __builtin_return_address(0),
      is_owner_waiting ? nearfield::heap::OwnerActivity::waiting : nearfield::heap::OwnerActivity::busy);
}

// The protocol by which the ranks of one communicator exchange data inside a node.
//
// In each operation a rank posts once: it announces that it has entered the operation, and offers data to its peers or
// none. Short data are copied into the rank's line or slot in shared memory (box.hpp). Longer data stay in the rank's
// private memory, from which readers copy; then the rank must wait for these readers before its caller may change the
// data.
//
// A rank waits for counters only. Each counter has one writer and only increases, and a wait ends when the counter has
// reached a given number. The next step of a rank never depends on when a wait ends. Two facts follow, on which the
// test of the protocol relies (tests/cpp/test_collective_protocol.cpp). First, if the protocol terminates under one
// schedule, it terminates under all. Second, the execution in which each wait reads the lowest sufficient number orders
// the fewest accesses, so if it has no data race, no execution under the C++ memory model has one.
//
// `Port` implements how a rank waits, copies data and accesses the memory of its peers: LivePort (live_port.hpp) in MPI
// programs, SimulatedPort in the simulator, CheckedPort in the test. At most one thread at a time may use an exchange,
// as MPI requires for the collectives of a communicator.
#pragma once

#include <algorithm>
#include <cstring>

#include "collectives/box.hpp"

namespace nearfield::collectives {

using Bytes = unsigned char;

// The reason for which a rank waits: to reuse a line and a slot, for a peer to enter the operation, or for the readers
// of its data. The test of the protocol skips all waits of one reason, and must then find a race.
enum class WaitReason { reuse, entry, readers };

template <class Port>
class Exchange {
 public:
  using Box = typename Port::Box;
  static constexpr std::uint64_t depth = Box::depth, half_depth = depth / 2;
  static_assert(depth % 2 == 0);

  // `boxes[i]` is the box of rank i, at the address where this process has mapped it. All boxes must outlive the
  // exchange.
  Exchange(Port& port, Box* const* boxes, int ranks, int rank)
      : port_(port), boxes_(boxes), ranks_(ranks), rank_(rank) {}

  int ranks() const { return ranks_; }
  std::uint64_t operation_number() const { return operation_number_; }  // the last operation that this rank has begun
  int rank() const { return rank_; }
  Port& port() { return port_; }

  // Begins the next operation, which reuses the line and the slot of the operation `depth` earlier; all ranks must have
  // finished that operation. Unless this rank knows that they have, waits until all ranks have entered the operation
  // `depth / 2` earlier, so that the next operations need not wait.
  void begin_operation() {
    ++operation_number_;
    posted_data_ = nullptr;
    if (operation_number_ > depth && last_entered_by_all_ <= operation_number_ - depth)
      await_all_entered(operation_number_ - half_depth, WaitReason::reuse);
  }

  // Enters the operation without offering data.
  void post_nothing() { publish_entry(DataPlace::nowhere); }

  // Enters the operation and offers data to the peers. The data must not change before await_readers() has returned.
  // `result` is null, or a buffer of the same length, into which peers may store_result() if the data are longer than a
  // slot.
  void post_data(const void* data, std::size_t bytes, void* result = nullptr) {
    posted_data_ = static_cast<const Bytes*>(data);
    Line& line = own_line();
    if (bytes <= inline_bytes) {
      port_.write_shared(line.data, data, bytes);
      publish_entry(DataPlace::line);
    } else if (bytes <= slot_bytes) {
      port_.write_shared(own_slot(), data, bytes);
      publish_entry(DataPlace::slot);
    } else {
      const std::uint64_t addresses[] = {reinterpret_cast<std::uintptr_t>(data),
                                         reinterpret_cast<std::uintptr_t>(result)};
      port_.write_shared(&line.address, addresses, sizeof addresses);
      last_operation_in_private_memory_ = operation_number_;
      publish_entry(DataPlace::memory);
    }
  }

  // Enters the operation and offers a piece of data to each rank. `piece(i)` returns the address and the length of the
  // piece for rank i, as a struct {const Bytes* data; std::size_t bytes;}. The data must not change before
  // await_readers() has returned.
  template <class GetPiece>
  void post_pieces(GetPiece piece) {
    std::size_t total = 0;
    for (int i = 0; i < ranks_; ++i) total += i == rank_ ? 0 : piece(i).bytes;
    std::size_t offset = sizeof(std::uint64_t) * static_cast<std::size_t>(ranks_);
    const bool fits_in_slot = offset + total <= slot_bytes;
    for (int i = 0; i < ranks_; ++i) {
      const auto [data, bytes] = piece(i);
      const std::uint64_t entry = fits_in_slot ? offset : reinterpret_cast<std::uintptr_t>(data);
      port_.write_shared(own_slot() + sizeof entry * static_cast<std::size_t>(i), &entry, sizeof entry);
      if (!fits_in_slot || i == rank_) continue;
      port_.write_shared(own_slot() + offset, data, bytes);
      offset += bytes;
    }
    posted_data_ = piece(rank_).data;
    if (!fits_in_slot) last_operation_in_private_memory_ = operation_number_;
    publish_entry(fits_in_slot ? DataPlace::pieces_in_slot : DataPlace::pieces_in_memory);
  }

  // Waits until `rank` has posted in the current operation.
  void await_post(int rank) {
    if (rank != rank_) port_.wait(line_of(rank, operation_number_).number, operation_number_, rank, WaitReason::entry);
  }
  void await_all_posts() { await_all_entered(operation_number_, WaitReason::entry); }

  // Records that all ranks have entered operation `number`, so that begin_operation() need not read the counters of all
  // ranks. The caller knows this from its waits for some of the ranks.
  void record_all_entered(std::uint64_t number) { last_entered_by_all_ = std::max(last_entered_by_all_, number); }

  // Copies `bytes` bytes, from `offset` on, of the data that `rank` has posted in the current operation. The caller
  // must have called await_post(rank). `is_owner_waiting` promises that `rank` only waits for its readers during the
  // copy, so it can help with the copy.
  void fetch_data(int rank, std::size_t offset, void* to, std::size_t bytes, bool is_owner_waiting = false) {
    if (bytes == 0) return;
    if (rank == rank_) {
      port_.copy_own(to, posted_data_ + offset, bytes);
    } else if (const Bytes* data = data_in_box(rank)) {
      port_.read_shared(rank, to, data + offset, bytes);
    } else {
      port_.read_memory(rank, to, addresses_of(rank).address + offset, bytes, is_owner_waiting);
    }
  }

  // Copies data into the `result` buffer that `rank` has posted. The caller must have called await_post(rank).
  void store_result(int rank, std::size_t offset, const void* from, std::size_t bytes) {
    if (bytes > 0) port_.write_memory(rank, addresses_of(rank).result + offset, from, bytes);
  }

  // Copies the piece that `rank` has posted for this rank by post_pieces(). The caller must have called
  // await_post(rank).
  void fetch_piece(int rank, void* to, std::size_t bytes, bool is_owner_waiting = false) {
    if (bytes == 0) return;
    if (rank == rank_) {
      port_.copy_own(to, posted_data_, bytes);
      return;
    }
    const Bytes* const slot = boxes_[rank]->slots[operation_number_ % depth];
    std::uint64_t entry = 0;
    port_.read_shared(rank, &entry, slot + sizeof entry * static_cast<std::size_t>(rank_), sizeof entry);
    if (place_of(rank) == DataPlace::pieces_in_slot)
      port_.read_shared(rank, to, slot + entry, bytes);
    else
      port_.read_memory(rank, to, entry, bytes, is_owner_waiting);
  }

  // Returns the address of byte `offset` of the data that this rank has posted.
  const Bytes* own_data(std::size_t offset) const { return posted_data_ + offset; }

  // Returns an address at which `bytes` bytes, from `offset` on, of the data that `rank` has posted can be read. The
  // caller must have called await_post(rank). If the data are in the private memory of `rank`, copies them to `buffer`
  // and returns that address.
  const void* view_data(int rank, std::size_t offset, std::size_t bytes, void* buffer) {
    if (rank == rank_) return own_data(offset);
    if (const Bytes* data = data_in_box(rank)) {
      port_.note_read(rank, data + offset, bytes);
      return data + offset;
    }
    fetch_data(rank, offset, buffer, bytes);
    return buffer;
  }

  // Announces that this rank has finished its reads and stores of the current operation. Called by each rank whose
  // peers may wait for it in await_reader() or await_readers().
  void publish_reads_finished() { port_.publish(boxes_[rank_]->read, operation_number_); }

  // Wait until `rank` (await_reader) or all ranks (await_readers) have read the data that this rank last offered in its
  // private memory, in this operation or an earlier one. await_reader() requires that no other rank reads these data.
  void await_reader(int rank) {
    if (last_operation_in_private_memory_ && rank != rank_)
      port_.wait(boxes_[rank]->read, last_operation_in_private_memory_, rank, WaitReason::readers);
    last_operation_in_private_memory_ = 0;
  }
  void await_readers() {
    if (last_operation_in_private_memory_)
      for (int rank = 0; rank < ranks_; ++rank)
        if (rank != rank_) port_.wait(boxes_[rank]->read, last_operation_in_private_memory_, rank, WaitReason::readers);
    last_operation_in_private_memory_ = 0;
  }

 private:
  Line& line_of(int rank, std::uint64_t number) { return boxes_[rank]->lines[number % depth]; }
  Line& own_line() { return line_of(rank_, operation_number_); }
  Bytes* own_slot() { return boxes_[rank_]->slots[operation_number_ % depth]; }

  void publish_entry(DataPlace place) {
    port_.write_shared(&own_line().place, &place, sizeof place);
    port_.publish(own_line().number, operation_number_);
  }

  // Waits until all ranks have entered operation `number`, and so have finished all earlier operations.
  void await_all_entered(std::uint64_t number, WaitReason reason) {
    for (int rank = 0; rank < ranks_; ++rank)
      if (rank != rank_) port_.wait(line_of(rank, number).number, number, rank, reason);
    last_entered_by_all_ = number;
  }

  // Returns the address of the data that `rank` has copied into its line or slot; null if the data are in its private
  // memory.
  const Bytes* data_in_box(int rank) {
    const DataPlace place = place_of(rank);
    if (place == DataPlace::memory) return nullptr;
    return place == DataPlace::slot ? boxes_[rank]->slots[operation_number_ % depth]
                                    : line_of(rank, operation_number_).data;
  }
  DataPlace place_of(int rank) {
    const Line& line = line_of(rank, operation_number_);
    port_.note_read(rank, &line.place, sizeof line.place);
    return line.place;
  }
  struct Addresses {
    std::uint64_t address, result;
  };
  Addresses addresses_of(int rank) {
    const Line& line = line_of(rank, operation_number_);
    port_.note_read(rank, &line.address, sizeof(Addresses));
    return {line.address, line.result};
  }

  Port& port_;
  Box* const* boxes_;
  int ranks_, rank_;
  std::uint64_t operation_number_ = 0;                  // number of the current operation
  std::uint64_t last_entered_by_all_ = 0;               // the last operation that all ranks are known to have entered
  std::uint64_t last_operation_in_private_memory_ = 0;  // last operation whose readers are not awaited yet; 0: none
  const Bytes* posted_data_ = nullptr;                  // the data that this rank offers, or its piece for itself
};

}  // namespace nearfield::collectives

// Is the time between the arrival of a message and the first read of its data that of what the program does between
// them, and is it known which messages are never read?
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <random>

#include "check.hpp"
#include "replay_streams.hpp"
#include "sim/run/replay/first_reads.hpp"

namespace {

using namespace nearfield;
using namespace nearfield::sim;
using replay::FirstReads;
using replay::ReceivedData;

constexpr std::uint64_t received = heap + 65536, other_data = heap + (1 << 22);
// Datatypes of 64 bytes: eight blocks of 8 bytes, 64 bytes apart; blocks of 8 and of 56 bytes with a gap between them.
constexpr stream::Number strided = 7, indexed = 8;

struct Received {
  ReceivedData first;  // by the first receive of rank 1
  Ps computing = 0;    // of rank 1
};

// Returns the bytes of the lines that were not read.
std::uint64_t unread_bytes(const ReceivedData& data) { return data.bytes - data.read_bytes; }

// Rank 0 of two nodes sends a message of this length, and rank 1 receives it by MPI_Irecv and then does something.
template <class After>
Received receive(std::uint64_t bytes, After after, std::uint64_t accesses_before = 0,
                 stream::Number layout = StreamBuilder::bytes) {
  Streams all = streams(2);
  for (auto& one : all) {
    one.add(stream::Layout{strided, 64, 512, {{0, 8, 8, 64}}, "vector"});
    one.add(stream::Layout{indexed, 64, 512, {{0, 8, 1, 8}, {40, 56, 1, 56}}, "indexed"});
  }
  all[0].enter("MPI_Send", 1).send(1, 1, data(bytes)).wait({1}).leave();
  all[0].enter("MPI_Recv", 4).receive(1, 1, data(bytes), 9).wait({1}).leave().end();
  auto& one = all[1];
  one.access(false, other_data, accesses_before, 64);
  const stream::Data buffer{received, layout == StreamBuilder::bytes ? bytes : bytes / 64, layout};
  one.enter("MPI_Irecv", 1).receive(1, 0, buffer).leave();
  one.enter("MPI_Wait", 2).wait({1}).leave();
  after(one);
  one.enter("MPI_Send", 3).send(1, 0, data(bytes, heap), 9).wait({1}).leave().end();
  replay::ReplayOptions options;
  options.first_reads = true;
  const auto found = run(std::move(all), cluster(2, 1), options);
  for (const auto& call : found.ranks[1].calls)
    if (call.name == "MPI_Irecv") return {call.received, found.ranks[1].computing.time[0][0]};
  CHECK(false);
  return {};
}

void data_lies_until_the_first_load() {
  constexpr std::uint64_t line = 128;  // of the test's machine
  for (const std::uint64_t bytes : {line, std::uint64_t{512}, large})
    for (const std::uint64_t between : {std::uint64_t{0}, std::uint64_t{3000}, std::uint64_t{20000}}) {
      const auto found = receive(
          bytes, [between](auto& one) { one.access(false, other_data, between, 64).access(false, received + 8); });
      const double first = std::min(bytes, line);
      CHECK(found.first.messages == 1 && found.first.bytes == bytes && found.first.read_bytes == first);
      CHECK(found.first.byte_time_until_read == first * found.computing);  // the load is the last access
      CHECK(std::abs(found.first.byte_time - first * (found.first.time_in_mpi + found.computing)) < 1);
    }
  // Another load of the line follows, and does not count; a load of the next line does.
  const auto load_first = [](auto& one) { one.access(false, received).access(false, other_data, 20000, 64); };
  const auto once = receive(512, [&](auto& one) { load_first(one), one.access(false, received + 8); });
  CHECK(once.first.byte_time_until_read < line * once.computing / 100);
  const auto twice = receive(512, [&](auto& one) { load_first(one), one.access(false, received + line); });
  CHECK(twice.first.read_bytes == 2 * line && twice.first.byte_time_until_read > line * twice.computing * 0.99);
  CHECK(twice.first.byte_time_until_read < line * twice.computing * 1.01);
}

// Data of an eager message arrives before the call that receives it, and that of a rendezvous only then.
void eager_data_waits_in_mpi() {
  const auto read = [](auto& one) { one.access(false, received); };
  const auto early = receive(100, read, 20000), late = receive(large, read, 20000);
  CHECK(early.first.time_in_mpi > early.computing / 2);
  CHECK(late.first.time_in_mpi < early.first.time_in_mpi / 10);
}

// Does data of an eager message wait from its arrival on also if the library finds the message before its receive is
// posted?
void unexpected_data_waits_in_mpi() {
  Streams all = streams(2);
  for (const std::int64_t tag : {1, 2}) all[0].enter("MPI_Send", 1).send(1, 1, data(100), tag).wait({1}).leave();
  all[0].end();
  auto& one = all[1];
  one.enter("MPI_Recv", 1).receive(1, 0, data(100, other_data), 2).wait({1}).leave();
  one.access(false, other_data + 4096, 20000, 64);
  one.enter("MPI_Recv", 2).receive(1, 0, data(100, received), 1).wait({1}).leave().access(false, received).end();
  replay::ReplayOptions options;
  options.first_reads = true;
  const auto found = run(all, cluster(2, 1), options);
  const Ps computing = found.ranks[1].computing.time[0][0];
  for (const auto& call : found.ranks[1].calls) {
    const bool is_unexpected = call.place.offset == 0x102;
    CHECK(call.received.messages == 1 && (call.received.time_in_mpi > computing / 2) == is_unexpected);
  }
}

void some_data_is_never_read() {
  const auto unread = [](auto after, stream::Number layout = StreamBuilder::bytes) {
    return unread_bytes(receive(512, after, 0, layout).first);
  };
  CHECK(unread([](auto& one) { one.access(false, received - 8).access(false, received + 512); }) == 512);
  CHECK(unread([](auto& one) { one.access(true, received + 504).access(false, received); }) == 512 - 128);
  CHECK(unread([](auto& one) { one.access(true, received + 504).access(false, received + 496); }) == 512);
  CHECK(unread([](auto& one) { one.access(false, received + 504).access(true, received + 504); }) == 512 - 128);
  // MPI reads what it sends, and overwrites what it receives.
  const auto send = [](auto& one) {
    one.enter("MPI_Isend", 5).send(2, 1, data(8, received + 504), 5).leave();
    one.enter("MPI_Recv", 6).receive(3, 1, data(8, other_data), 5).wait({3, 2}).leave();
  };
  CHECK(unread(send) == 512 - 128);
  const auto overwrite = [](auto& one) {
    one.enter("MPI_Isend", 5).send(2, 1, data(8, other_data), 5).leave();
    one.enter("MPI_Recv", 6).receive(3, 1, data(8, received), 5).wait({3, 2}).leave().access(false, received);
  };
  CHECK(unread(overwrite) == 512);
  // The gaps of a datatype are not data.
  const auto unread_of = [&](stream::Number layout, std::uint64_t address) {
    return unread([address](auto& one) { one.access(false, address); }, layout);
  };
  CHECK(unread_of(strided, received + 8) == 512 && unread_of(strided, received + 56) == 512);
  CHECK(unread_of(strided, received + 64) == 504 && unread_of(strided, received + 7 * 512 + 7 * 64) == 504);
  CHECK(unread_of(indexed, received + 32) == 512 && unread_of(indexed, received + 7 * 512 + 8) == 512);
  CHECK(unread_of(indexed, received + 40) == 512 - 56 && unread_of(indexed, received + 7 * 512) == 504);
}

// Do an allgather's results lie, and are its arguments read, at their whole length?
void collectives_read_and_receive() {
  Streams all = streams(2);
  for (auto& one : all) {
    const auto allgather = [&one](std::uint64_t from, std::uint64_t to, std::uint64_t bytes, stream::Number site) {
      stream::Collective event;
      event.kind = stream::CollectiveKind::allgather;
      event.send_buffers = {data(bytes, from)}, event.receive_buffers = {data(bytes, to)};
      one.enter("MPI_Allgather", site).add(event).leave();
    };
    allgather(heap, received, 64, 1);             // 128 bytes
    allgather(received + 120, other_data, 8, 2);  // reads the last of them
    one.access(false, other_data + 8).end();
  }
  replay::ReplayOptions options;
  options.first_reads = true;
  const auto found = run(all, cluster(2, 1), options);
  CHECK(found.ranks[0].calls.size() == 2);
  for (const auto& call : found.ranks[0].calls) {
    const std::uint64_t bytes = call.place.offset == 0x101 ? 128 : 16;
    CHECK(call.received.messages == 1 && call.received.bytes == bytes && call.received.read_bytes == bytes);
  }
}

// Does measuring change no digit?
void digits_stay() {
  Streams all = streams(4);
  for (unsigned r = 0; r < 4; ++r) {
    all[r].access(true, heap, 2000).enter("MPI_Irecv", 1).receive(1, (r + 3) % 4, data(large, received)).leave();
    all[r].enter("MPI_Isend", 2).send(2, (r + 1) % 4, data(large)).leave();
    all[r].enter("MPI_Waitall", 3).wait({1, 2}).leave();
    all[r].access(false, other_data, 3000, 24).access(false, received, 600).end();
  }
  replay::ReplayOptions options;
  const auto without = run(all, cluster(2, 2), options);
  options.first_reads = true;
  const auto with = run(all, cluster(2, 2), options);
  for (std::size_t r = 0; r < 4; ++r) CHECK(with.cluster.ranks[r].finish_time == without.cluster.ranks[r].finish_time);
}

// For random messages, reads and writes: are the same lines found as by a map of all bytes?
void random_lines_are_found() {
  constexpr std::uint64_t line = 16;
  std::mt19937 random(7);
  const auto below = [&random](std::uint64_t limit) { return random() % limit; };
  for (int round = 0; round < 300; ++round) {
    FirstReads tested(line);
    std::map<Address, std::size_t> owner_of_byte;  // number of the unread piece
    std::vector<std::uint64_t> bytes_of_piece;
    const FirstReads::CallKey call{1, 1};
    std::uint64_t messages = 0, received_bytes = 0, read_bytes = 0;
    const auto end_piece = [&](std::size_t piece) {
      std::erase_if(owner_of_byte, [piece](const auto& one) { return one.second == piece; });
      return bytes_of_piece[piece];
    };
    for (int step = 0; step < 60; ++step) {
      const Address at = below(400);
      const auto owner_in = [&](Address begin, std::uint64_t bytes) -> std::optional<std::size_t> {
        for (Address byte = begin + bytes; byte-- > begin;)
          if (const auto found = owner_of_byte.find(byte); found != owner_of_byte.end()) return found->second;
        return {};
      };
      if (below(3) == 0) {
        const Buffer buffer(at, 1 + below(5), 1 + below(40), 40 + below(20));
        const std::uint64_t bytes = 1 + below(buffer.bytes());
        tested.add_message(call, buffer, bytes, step, step);
        ++messages, received_bytes += bytes;
        std::map<std::pair<std::uint64_t, Address>, std::vector<Address>> pieces;  // by block and line
        for (std::uint64_t b = 0; b < bytes; ++b) {
          const std::uint64_t block = b / buffer.block_bytes;
          const Address byte = at + block * buffer.stride_bytes + b % buffer.block_bytes;
          if (const auto owner = owner_in(byte, 1)) end_piece(*owner);
          pieces[{block, byte / line}].push_back(byte);
        }
        for (const auto& [key, own] : pieces) {
          for (const Address byte : own) owner_of_byte[byte] = bytes_of_piece.size();
          bytes_of_piece.push_back(own.size());
        }
        continue;
      }
      const std::uint64_t bytes = 1 + below(16);
      const bool read = below(2) == 0;
      while (const auto owner = owner_in(at, bytes)) {
        const auto found = tested.take_unread_line(at, bytes);
        CHECK(found && found->end - found->begin == bytes_of_piece[*owner]);
        if (!found) return;
        if (read) tested.record_read(*found, step), read_bytes += bytes_of_piece[*owner];
        end_piece(*owner);
      }
      CHECK(!tested.take_unread_line(at, bytes));
    }
    const ReceivedData all = tested.received_by(call);
    CHECK(all.messages == messages && all.bytes == received_bytes && all.read_bytes == read_bytes);
    CHECK(tested.has_unread_lines() == !owner_of_byte.empty());
  }
}

}  // namespace

int main() {
  data_lies_until_the_first_load();
  eager_data_waits_in_mpi();
  unexpected_data_waits_in_mpi();
  some_data_is_never_read();
  collectives_read_and_receive();
  digits_stay();
  random_lines_are_found();
  return failed_checks == 0 ? 0 : 1;
}

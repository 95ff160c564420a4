// Persistent requests, all started together: the fastest method in plain MPI, which also carries cells to other nodes.
// Non-contiguous cells are packed by this file or by a datatype, whichever is faster on this machine.
#include <climits>

#include "halo/datatype.hpp"
#include "halo/protocol.hpp"

namespace nearfield::halo {
namespace {

// Returns the minimum time over several tries.
template <class Work>
double time_of(Work&& work) {
  double best_time = 1e9;
  for (int i = 0; i < 7; ++i) {
    const double start = MPI_Wtime();
    work();
    best_time = std::min(best_time, MPI_Wtime() - start);
  }
  return best_time;
}

bool datatype_is_faster(std::byte* buffer, const std::vector<Strip>& strips, const std::vector<Cells>& fields,
                        MPI_Datatype type, MPI_Comm comm) {
  const auto whole = bytes_of(strips, fields);
  if (whole > INT_MAX) return false;  // more than MPI_Pack can count
  const auto bytes = static_cast<int>(whole);
  int needed = 0;
  MPI_Pack_size(1, type, comm, &needed);
  if (needed != bytes) return false;
  const double by_us = time_of([&] { gather(buffer, strips, fields); });
  const double by_mpi = time_of([&] {
    int position = 0;
    MPI_Pack(fields.front().mine.first, 1, type, buffer, bytes, &position, comm);
  });
  return by_mpi < by_us;
}

class Persistent final : public Protocol {
 public:
  Persistent(ExchangeContext& around, Move move) : comm_(around.node().comm), move_(std::move(move)) {
    for (const auto& message : move_.messages) {
      if (message.to >= 0) sends_.push_back(set_up_send(message));
      if (message.from >= 0) receives_.push_back(set_up_receive(message));
    }
  }

  ~Persistent() override {
    if (mpi_has_ended()) return;
    for (auto& request : requests_) MPI_Request_free(&request);
    free_types(types_);
  }

  void start() override {
    for (auto& side : sends_)
      if (side.packed) gather(side.buffer.data(), side.message->send, move_.fields);
    if (!requests_.empty()) MPI_Startall(static_cast<int>(requests_.size()), requests_.data());
  }

  void finish() override {
    MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE);
    for (auto& side : receives_)
      if (side.packed) scatter(side.buffer.data(), side.message->receive, move_.fields, move_.add);
  }

  void progress() override {
    int done = 0;
    if (!requests_.empty()) MPI_Request_get_status(requests_[0], &done, MPI_STATUS_IGNORE);
  }

 private:
  static constexpr int tag = 2;

  struct Side {
    const Message* message;
    bool packed;
    std::vector<std::byte> buffer;
  };

  Side set_up_send(const Message& message) {
    Side side{&message, false, {}};
    MPI_Request request;
    const auto bytes = bytes_of(message.send, move_.fields);
    if (auto* cells = contiguous(message.send, move_.fields)) {
      const auto [count, type] = register_type(counted(bytes));
      MPI_Send_init(cells, count, type, message.to, tag, comm_, &request);
    } else {
      side.buffer.resize(bytes);
      const std::byte* origin = move_.fields.front().mine.first;
      MPI_Datatype type = datatype_of(message.send, move_.fields, origin);
      side.packed = !datatype_is_faster(side.buffer.data(), message.send, move_.fields, type, comm_);
      if (side.packed) {
        MPI_Type_free(&type);
        const auto [count, whole] = register_type(counted(bytes));
        MPI_Send_init(side.buffer.data(), count, whole, message.to, tag, comm_, &request);
      } else {
        MPI_Send_init(origin, 1, register_type({1, type}).type, message.to, tag, comm_, &request);
      }
    }
    requests_.push_back(request);
    return side;
  }

  Side set_up_receive(const Message& message) {
    Side side{&message, true, {}};
    MPI_Request request;
    const auto bytes = bytes_of(message.receive, move_.fields);
    std::byte* into = move_.add || move_.in_place ? nullptr : contiguous(message.receive, move_.fields);
    if (into) {
      side.packed = false;
    } else {
      side.buffer.resize(bytes);
      into = side.buffer.data();
    }
    const auto [count, type] = register_type(counted(bytes));
    MPI_Recv_init(into, count, type, message.from, tag, comm_, &request);
    requests_.push_back(request);
    return side;
  }

  // Types must live as long as their requests.
  Counted register_type(Counted counted) {
    types_.push_back(counted.type);
    return counted;
  }

  MPI_Comm comm_;
  Move move_;
  std::vector<Side> sends_, receives_;
  std::vector<MPI_Request> requests_;
  std::vector<MPI_Datatype> types_;
};

// One MPI message, plus packing.
double cost_persistent(const MessageShape& shape, const planning::Costs& costs) {
  const double packing = shape.run_bytes < shape.bytes ? 2 * shape.bytes / shape.run_bytes * 4.0 : 0.0;
  return costs.same_node.latency_ns + shape.bytes * costs.same_node.ns_per_byte + packing;
}

}  // namespace

const ProtocolSpec persistent_protocol{"persistent", "persistent requests, all started at once",
                                       make_variant<Protocol, Persistent>, cost_persistent};

}  // namespace nearfield::halo

// Exchanges by persistent requests that are started together: the fastest method of plain MPI, which also moves cells
// between nodes. Non-contiguous cells are packed by this file or by an MPI datatype, whichever was faster at set-up.
#include <climits>

#include "halo/datatype.hpp"
#include "halo/protocol.hpp"

namespace nearfield::halo {
namespace {

// Returns the minimum time of work() over several tries, in seconds.
template <class Work>
double min_time_s(Work&& work) {
  double best_time = 1e9;
  for (int i = 0; i < 7; ++i) {
    const double start = MPI_Wtime();
    work();
    best_time = std::min(best_time, MPI_Wtime() - start);
  }
  return best_time;
}

bool is_datatype_faster(std::byte* buffer, const std::vector<Strip>& strips, const std::vector<FieldArrays>& fields,
                        MPI_Datatype type, MPI_Comm comm) {
  const auto whole = message_bytes(strips, fields);
  if (whole > INT_MAX) return false;  // MPI_Pack counts bytes in an int
  const auto bytes = static_cast<int>(whole);
  int needed = 0;
  MPI_Pack_size(1, type, comm, &needed);
  if (needed != bytes) return false;
  const double by_us = min_time_s([&] { pack_strips(buffer, strips, fields); });
  const double by_mpi = min_time_s([&] {
    int position = 0;
    MPI_Pack(fields.front().mine.first, 1, type, buffer, bytes, &position, comm);
  });
  return by_mpi < by_us;
}

class PersistentProtocol final : public Protocol {
 public:
  PersistentProtocol(ExchangeContext& around, ExchangePlan move) : comm_(around.node().comm), move_(std::move(move)) {
    for (const auto& message : move_.messages) {
      if (message.to >= 0) sends_.push_back(set_up_send(message));
      if (message.from >= 0) receives_.push_back(set_up_receive(message));
    }
  }

  ~PersistentProtocol() override {
    if (mpi_has_ended()) return;
    for (auto& request : requests_) MPI_Request_free(&request);
    free_types(types_);
  }

  void start_exchange() override {
    for (auto& side : sends_)
      if (side.packed) pack_strips(side.buffer.data(), side.message->send, move_.fields);
    if (!requests_.empty()) MPI_Startall(static_cast<int>(requests_.size()), requests_.data());
  }

  void finish_exchange() override {
    MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE);
    for (auto& side : receives_)
      if (side.packed) unpack_strips(side.buffer.data(), side.message->receive, move_.fields, move_.add);
  }

  void drive_progress() override {
    int done = 0;
    if (!requests_.empty()) MPI_Request_get_status(requests_[0], &done, MPI_STATUS_IGNORE);
  }

 private:
  static constexpr int tag = 2;

  struct PersistentMessage {
    const Message* message;
    bool packed;
    std::vector<std::byte> buffer;
  };

  PersistentMessage set_up_send(const Message& message) {
    PersistentMessage side{&message, false, {}};
    MPI_Request request;
    const auto bytes = message_bytes(message.send, move_.fields);
    if (auto* cells = contiguous_address(message.send, move_.fields)) {
      const auto [count, type] = register_type(create_bytes_type(bytes));
      MPI_Send_init(cells, count, type, message.to, tag, comm_, &request);
    } else {
      side.buffer.resize(bytes);
      const std::byte* origin = move_.fields.front().mine.first;
      MPI_Datatype type = create_strips_type(message.send, move_.fields, origin);
      side.packed = !is_datatype_faster(side.buffer.data(), message.send, move_.fields, type, comm_);
      if (side.packed) {
        MPI_Type_free(&type);
        const auto [count, whole] = register_type(create_bytes_type(bytes));
        MPI_Send_init(side.buffer.data(), count, whole, message.to, tag, comm_, &request);
      } else {
        MPI_Send_init(origin, 1, register_type({1, type}).type, message.to, tag, comm_, &request);
      }
    }
    requests_.push_back(request);
    return side;
  }

  PersistentMessage set_up_receive(const Message& message) {
    PersistentMessage side{&message, true, {}};
    MPI_Request request;
    const auto bytes = message_bytes(message.receive, move_.fields);
    std::byte* into = move_.add || move_.in_place ? nullptr : contiguous_address(message.receive, move_.fields);
    if (into) {
      side.packed = false;
    } else {
      side.buffer.resize(bytes);
      into = side.buffer.data();
    }
    const auto [count, type] = register_type(create_bytes_type(bytes));
    MPI_Recv_init(into, count, type, message.from, tag, comm_, &request);
    requests_.push_back(request);
    return side;
  }

  // Registers the datatype, which must live as long as the requests that use it.
  CountAndType register_type(CountAndType counted) {
    types_.push_back(counted.type);
    return counted;
  }

  MPI_Comm comm_;
  ExchangePlan move_;
  std::vector<PersistentMessage> sends_, receives_;
  std::vector<MPI_Request> requests_;
  std::vector<MPI_Datatype> types_;
};

// Predicts the time of one MPI message, plus packing and unpacking.
double cost_persistent(const MessageShape& shape, const planning::Costs& costs) {
  const double packing = shape.run_bytes < shape.bytes ? 2 * shape.bytes / shape.run_bytes * 4.0 : 0.0;
  return costs.same_node.latency_ns + shape.bytes * costs.same_node.ns_per_byte + packing;
}

}  // namespace

const ProtocolSpec persistent_protocol{"persistent", "persistent requests, all started at once",
                                       make_variant<Protocol, PersistentProtocol>, cost_persistent};

}  // namespace nearfield::halo

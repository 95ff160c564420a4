// Exchanges by persistent requests that are started together: the fastest method of plain MPI, which also moves cells
// between nodes. Non-contiguous cells are packed by pack_strips() or by an MPI datatype, whichever is faster at set-up.
#include <climits>

#include "halo/datatype.hpp"
#include "halo/protocol.hpp"

namespace nearfield::halo {
namespace {

// Returns the minimum time of several calls of work(), in seconds.
template <class Work>
double measure_min_time_s(Work&& work) {
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
  const auto total_bytes = message_bytes(strips, fields);
  if (total_bytes > INT_MAX) return false;  // MPI_Pack counts bytes in an int
  const auto bytes = static_cast<int>(total_bytes);
  int needed = 0;
  MPI_Pack_size(1, type, comm, &needed);
  if (needed != bytes) return false;
  const double own_packing_s = measure_min_time_s([&] { pack_strips(buffer, strips, fields); });
  const double mpi_packing_s = measure_min_time_s([&] {
    int position = 0;
    MPI_Pack(fields.front().local_array.first, 1, type, buffer, bytes, &position, comm);
  });
  return mpi_packing_s < own_packing_s;
}

class PersistentProtocol final : public Protocol {
 public:
  PersistentProtocol(ExchangeContext& context, ExchangePlan plan) : comm_(context.node().comm), plan_(std::move(plan)) {
    for (const auto& message : plan_.messages) {
      if (message.destination >= 0) sends_.push_back(set_up_send(message));
      if (message.source >= 0) receives_.push_back(set_up_receive(message));
    }
  }

  ~PersistentProtocol() override {
    if (mpi_has_ended()) return;
    for (auto& request : requests_) MPI_Request_free(&request);
    free_types(types_);
  }

  void start_exchange() override {
    for (auto& persistent_message : sends_)
      if (persistent_message.is_packed)
        pack_strips(persistent_message.buffer.data(), persistent_message.message->send, plan_.fields);
    if (!requests_.empty()) MPI_Startall(static_cast<int>(requests_.size()), requests_.data());
  }

  void finish_exchange() override {
    MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE);
    for (auto& persistent_message : receives_)
      if (persistent_message.is_packed)
        unpack_strips(persistent_message.buffer.data(), persistent_message.message->receive, plan_.fields,
                      plan_.should_add);
  }

  void drive_progress() override {
    int is_complete = 0;
    if (!requests_.empty()) MPI_Request_get_status(requests_[0], &is_complete, MPI_STATUS_IGNORE);
  }

 private:
  static constexpr int tag = 2;

  struct PersistentMessage {
    const Message* message;
    bool is_packed;
    std::vector<std::byte> buffer;
  };

  PersistentMessage set_up_send(const Message& message) {
    PersistentMessage persistent_message{&message, false, {}};
    MPI_Request request;
    const auto bytes = message_bytes(message.send, plan_.fields);
    if (auto* cells = contiguous_address(message.send, plan_.fields)) {
      const auto [count, type] = register_type(create_bytes_type(bytes));
      MPI_Send_init(cells, count, type, message.destination, tag, comm_, &request);
    } else {
      persistent_message.buffer.resize(bytes);
      const std::byte* origin = plan_.fields.front().local_array.first;
      MPI_Datatype type = create_strips_type(message.send, plan_.fields, origin);
      persistent_message.is_packed =
          !is_datatype_faster(persistent_message.buffer.data(), message.send, plan_.fields, type, comm_);
      if (persistent_message.is_packed) {
        MPI_Type_free(&type);
        const auto [count, total_bytes] = register_type(create_bytes_type(bytes));
        MPI_Send_init(persistent_message.buffer.data(), count, total_bytes, message.destination, tag, comm_, &request);
      } else {
        MPI_Send_init(origin, 1, register_type({1, type}).type, message.destination, tag, comm_, &request);
      }
    }
    requests_.push_back(request);
    return persistent_message;
  }

  PersistentMessage set_up_receive(const Message& message) {
    PersistentMessage persistent_message{&message, true, {}};
    MPI_Request request;
    const auto bytes = message_bytes(message.receive, plan_.fields);
    std::byte* into =
        plan_.should_add || plan_.reads_in_place ? nullptr : contiguous_address(message.receive, plan_.fields);
    if (into) {
      persistent_message.is_packed = false;
    } else {
      persistent_message.buffer.resize(bytes);
      into = persistent_message.buffer.data();
    }
    const auto [count, type] = register_type(create_bytes_type(bytes));
    MPI_Recv_init(into, count, type, message.source, tag, comm_, &request);
    requests_.push_back(request);
    return persistent_message;
  }

  // Registers the datatype, which must live as long as the requests that use it.
  CountAndType register_type(CountAndType counted) {
    types_.push_back(counted.type);
    return counted;
  }

  MPI_Comm comm_;
  ExchangePlan plan_;
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
                                       make_implementation<Protocol, PersistentProtocol>, cost_persistent};

}  // namespace nearfield::halo

#include "measure_operations.hpp"

namespace nearfield::collectives {
namespace {

constexpr int root = 0;

constexpr MeasuredOperation measured_operations[] = {
    {"barrier", false, false, [](OperationBuffers& b) { return MPI_Barrier(b.comm); }},
    {"bcast", false, false,
     [](OperationBuffers& b) {
       return MPI_Bcast((b.rank == root ? b.send : b.receive).data(), b.count, MPI_DOUBLE, root, b.comm);
     }},
    {"gather", false, true,
     [](OperationBuffers& b) {
       return MPI_Gather(b.send.data(), b.count, MPI_DOUBLE, b.receive.data(), b.count, MPI_DOUBLE, root, b.comm);
     }},
    {"scatter", true, false,
     [](OperationBuffers& b) {
       return MPI_Scatter(b.send.data(), b.count, MPI_DOUBLE, b.receive.data(), b.count, MPI_DOUBLE, root, b.comm);
     }},
    {"reduce", false, false,
     [](OperationBuffers& b) {
       return MPI_Reduce(b.send.data(), b.receive.data(), b.count, MPI_DOUBLE, MPI_SUM, root, b.comm);
     }},
    {"allgather", false, true,
     [](OperationBuffers& b) {
       return MPI_Allgather(b.send.data(), b.count, MPI_DOUBLE, b.receive.data(), b.count, MPI_DOUBLE, b.comm);
     }},
    {"alltoall", true, true,
     [](OperationBuffers& b) {
       return MPI_Alltoall(b.send.data(), b.count, MPI_DOUBLE, b.receive.data(), b.count, MPI_DOUBLE, b.comm);
     }},
    {"allreduce", false, false,
     [](OperationBuffers& b) {
       return MPI_Allreduce(b.send.data(), b.receive.data(), b.count, MPI_DOUBLE, MPI_SUM, b.comm);
     }},
    {"reduce_scatter", false, false,
     [](OperationBuffers& b) {
       // `count` is the length of the whole vector, of which each rank receives a part.
       const std::vector<int> counts = reduce_scatter_counts(b.count, b.ranks);
       return MPI_Reduce_scatter(b.send.data(), b.receive.data(), counts.data(), MPI_DOUBLE, MPI_SUM, b.comm);
     }},
    {"scan", false, false,
     [](OperationBuffers& b) {
       return MPI_Scan(b.send.data(), b.receive.data(), b.count, MPI_DOUBLE, MPI_SUM, b.comm);
     }},
};

}  // namespace

const MeasuredOperation* find_operation(const std::string& name) {
  for (const MeasuredOperation& one : measured_operations)
    if (name == one.name) return &one;
  return nullptr;
}

std::vector<int> reduce_scatter_counts(int count, int ranks) {
  std::vector<int> counts(static_cast<std::size_t>(ranks), count / ranks);
  counts[0] += count % ranks;
  return counts;
}

std::vector<std::string> split_text(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == separator)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

}  // namespace nearfield::collectives

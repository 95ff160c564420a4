#include "measure_check.hpp"

#include <algorithm>
#include <chrono>
#include <map>

namespace nearfield::collectives {
namespace {

constexpr std::size_t max_bytes_of_all_checks = 1 << 20;  // longer vectors are checked in one case only, to save time
constexpr double unset_value = -1;

struct CheckedCase {
  MPI_Comm comm;
  int rank, ranks, root, count;
  bool is_in_place;

  std::size_t num_values() const { return static_cast<std::size_t>(count); }
  std::size_t num_block_values() const { return num_values() * static_cast<std::size_t>(ranks); }
};

// The values are integers, so that sums of doubles are exact in every order.
double sent_value(int rank, std::size_t i) { return (rank + 1) * (1.0 + static_cast<double>(i % 61)); }
double sum_over_ranks(int ranks, std::size_t i) {
  return ranks * (ranks + 1) / 2 * (1.0 + static_cast<double>(i % 61));
}

Doubles sent_values(int rank, std::size_t count) {
  Doubles values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = sent_value(rank, i);
  return values;
}

std::string format_mpi_error(int mpi_result) {
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(mpi_result, text, &length);
  std::string message(text, static_cast<std::size_t>(length));
  std::replace(message.begin(), message.end(), '\n', ' ');
  return "MPI_ERR: " + message;
}

template <class Expected>
std::string compare_results(int mpi_result, const Doubles& results, std::size_t count, Expected expected) {
  if (mpi_result != MPI_SUCCESS) return format_mpi_error(mpi_result);
  for (std::size_t i = 0; i < count; ++i)
    if (results[i] != expected(i)) return "wrong results";
  return "";
}

// In each round another rank arrives 100 us late. Returns an error if any rank leaves the barrier before the last rank
// has entered.
std::string check_barrier(const CheckedCase& test) {
  using Clock = std::chrono::steady_clock;
  for (int late_rank = 0; late_rank < test.ranks; ++late_rank) {
    const auto begin = Clock::now();
    while (test.rank == late_rank && Clock::now() - begin < std::chrono::microseconds(100)) {
    }
    double entry_time_s = std::chrono::duration<double>(Clock::now().time_since_epoch()).count(), last_entry_time_s = 0;
    if (const int mpi_result = MPI_Barrier(test.comm); mpi_result != MPI_SUCCESS) return format_mpi_error(mpi_result);
    const double exit_time_s = std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
    PMPI_Allreduce(&entry_time_s, &last_entry_time_s, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    if (exit_time_s < last_entry_time_s) return "a rank leaves the barrier before all have entered it";
  }
  return "";
}

std::string check_bcast(const CheckedCase& test) {
  Doubles data =
      test.rank == test.root ? sent_values(test.root, test.num_values()) : Doubles(test.num_values(), unset_value);
  const int mpi_result = MPI_Bcast(data.data(), test.count, MPI_DOUBLE, test.root, test.comm);
  return compare_results(mpi_result, data, test.num_values(), [&](std::size_t i) { return sent_value(test.root, i); });
}

std::string check_reduce(const CheckedCase& test) {
  Doubles send = sent_values(test.rank, test.num_values()), receive = send;
  const void* from = test.is_in_place && test.rank == test.root ? MPI_IN_PLACE : send.data();
  const int mpi_result = MPI_Reduce(from, receive.data(), test.count, MPI_DOUBLE, MPI_SUM, test.root, test.comm);
  return compare_results(mpi_result, receive, test.rank == test.root ? test.num_values() : 0,
                         [&](std::size_t i) { return sum_over_ranks(test.ranks, i); });
}

std::string check_allreduce(const CheckedCase& test) {
  Doubles send = sent_values(test.rank, test.num_values()), receive = send;
  const void* from = test.is_in_place ? MPI_IN_PLACE : send.data();
  const int mpi_result = MPI_Allreduce(from, receive.data(), test.count, MPI_DOUBLE, MPI_SUM, test.comm);
  return compare_results(mpi_result, receive, test.num_values(),
                         [&](std::size_t i) { return sum_over_ranks(test.ranks, i); });
}

std::string check_allgather(const CheckedCase& test) {
  Doubles send = sent_values(test.rank, test.num_values()), receive(test.num_block_values(), unset_value);
  std::copy(send.begin(), send.end(), receive.begin() + static_cast<long>(test.num_values()) * test.rank);
  const void* from = test.is_in_place ? MPI_IN_PLACE : send.data();
  const int mpi_result = MPI_Allgather(from, test.count, MPI_DOUBLE, receive.data(), test.count, MPI_DOUBLE, test.comm);
  return compare_results(mpi_result, receive, test.num_block_values(), [&](std::size_t i) {
    return sent_value(static_cast<int>(i / test.num_values()), i % test.num_values());
  });
}

std::string check_alltoall(const CheckedCase& test) {
  Doubles send = sent_values(test.rank, test.num_block_values()), receive = send;
  const void* from = test.is_in_place ? MPI_IN_PLACE : send.data();
  const int mpi_result = MPI_Alltoall(from, test.count, MPI_DOUBLE, receive.data(), test.count, MPI_DOUBLE, test.comm);
  return compare_results(mpi_result, receive, test.num_block_values(), [&](std::size_t i) {
    return sent_value(static_cast<int>(i / test.num_values()),
                      test.num_values() * static_cast<std::size_t>(test.rank) + i % test.num_values());
  });
}

std::string check_reduce_scatter(const CheckedCase& test) {
  const std::vector<int> counts = reduce_scatter_counts(test.count, test.ranks);
  Doubles send = sent_values(test.rank, test.num_values()), receive(test.num_values(), unset_value);
  const int mpi_result = MPI_Reduce_scatter(send.data(), receive.data(), counts.data(), MPI_DOUBLE, MPI_SUM, test.comm);
  std::size_t first = 0;
  for (int i = 0; i < test.rank; ++i) first += static_cast<std::size_t>(counts[static_cast<std::size_t>(i)]);
  return compare_results(mpi_result, receive, static_cast<std::size_t>(counts[static_cast<std::size_t>(test.rank)]),
                         [&](std::size_t i) { return sum_over_ranks(test.ranks, first + i); });
}

// ---- an operator that does not commute: the composition of linear maps x -> a x + b with a = -1

struct LinearMap {
  double a, b;
};

void compose_maps(void* in, void* inout, int* length, MPI_Datatype*) {
  const LinearMap* first = static_cast<const LinearMap*>(in);
  LinearMap* second = static_cast<LinearMap*>(inout);
  for (int i = 0; i < *length; ++i) second[i] = {first[i].a * second[i].a, second[i].a * first[i].b + second[i].b};
}

std::string check_noncommutative(const MeasuredOperation& operation, const CheckedCase& test) {
  const bool is_reduce = operation.name == std::string("reduce");
  if (!is_reduce && operation.name != std::string("allreduce")) return "";
  MPI_Datatype pair;
  MPI_Op op;
  MPI_Type_contiguous(2, MPI_DOUBLE, &pair);
  MPI_Type_commit(&pair);
  MPI_Op_create(compose_maps, 0, &op);
  const int count = std::max(2 * test.ranks, test.count / 2);  // some algorithms split only long vectors
  std::vector<LinearMap> send(static_cast<std::size_t>(count), LinearMap{-1, 1.0 + test.rank}), receive(send);
  const int mpi_result = is_reduce ? MPI_Reduce(send.data(), receive.data(), count, pair, op, test.root, test.comm)
                                   : MPI_Allreduce(send.data(), receive.data(), count, pair, op, test.comm);
  MPI_Op_free(&op);
  MPI_Type_free(&pair);
  if (mpi_result != MPI_SUCCESS) return format_mpi_error(mpi_result);
  LinearMap expected{-1, 1};
  for (int i = 1; i < test.ranks; ++i) expected = {-expected.a, -expected.b + 1.0 + i};
  for (const LinearMap& checked_case : receive)
    if ((!is_reduce || test.rank == test.root) && (checked_case.a != expected.a || checked_case.b != expected.b))
      return "wrong results with an operator that does not commute";
  return "";
}

using CheckFunction = std::string (*)(const CheckedCase&);
const std::map<std::string, CheckFunction> check_by_operation{
    {"barrier", check_barrier},
    {"bcast", check_bcast},
    {"reduce", check_reduce},
    {"allreduce", check_allreduce},
    {"allgather", check_allgather},
    {"alltoall", check_alltoall},
    {"reduce_scatter", check_reduce_scatter},
};

}  // namespace

std::string find_wrong_result(const MeasuredOperation& operation, MPI_Comm comm, std::size_t bytes,
                              bool checks_any_call) {
  const auto check = check_by_operation.find(operation.name);
  if (check == check_by_operation.end()) return "nothing checks the results of this operation";
  CheckedCase base{comm, 0, 0, 0, static_cast<int>(bytes / sizeof(double)), false};
  MPI_Comm_rank(comm, &base.rank);
  MPI_Comm_size(comm, &base.ranks);
  std::vector<CheckedCase> cases{base};
  if (bytes > 0 && bytes <= max_bytes_of_all_checks) {
    cases.push_back({comm, base.rank, base.ranks, base.ranks - 1, base.count / 2 + 1, false});
    if (checks_any_call || operation.name != std::string("alltoall"))
      cases.push_back({comm, base.rank, base.ranks, base.ranks - 1, base.count, true});
  }
  std::string problem;
  for (const CheckedCase& checked_case : cases)
    if (std::string found = check->second(checked_case); problem.empty()) problem = found;
  if (checks_any_call)
    if (std::string found = check_noncommutative(operation, base); problem.empty()) problem = found;
  return problem;
}

}  // namespace nearfield::collectives

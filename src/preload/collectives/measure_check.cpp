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
  bool in_place;

  std::size_t size() const { return static_cast<std::size_t>(count); }
  std::size_t blocks() const { return size() * static_cast<std::size_t>(ranks); }
};

// The values are integers, so that sums of doubles are exact in every order.
double sent_value(int rank, std::size_t i) { return (rank + 1) * (1.0 + static_cast<double>(i % 61)); }
double sum_over_ranks(int ranks, std::size_t i) {
  return ranks * (ranks + 1) / 2 * (1.0 + static_cast<double>(i % 61));
}

Doubles sent_values(int rank, std::size_t count) {
  Doubles made(count);
  for (std::size_t i = 0; i < count; ++i) made[i] = sent_value(rank, i);
  return made;
}

std::string error_text(int code) {
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  std::string said(text, static_cast<std::size_t>(length));
  std::replace(said.begin(), said.end(), '\n', ' ');
  return "MPI_ERR: " + said;
}

template <class Expected>
std::string compare_results(int code, const Doubles& got, std::size_t count, Expected expected) {
  if (code != MPI_SUCCESS) return error_text(code);
  for (std::size_t i = 0; i < count; ++i)
    if (got[i] != expected(i)) return "wrong results";
  return "";
}

// In each round another rank arrives 100 us late. Returns an error if any rank leaves the barrier before the last rank
// has entered.
std::string check_barrier(const CheckedCase& c) {
  using Clock = std::chrono::steady_clock;
  for (int late = 0; late < c.ranks; ++late) {
    const auto begin = Clock::now();
    while (c.rank == late && Clock::now() - begin < std::chrono::microseconds(100)) {
    }
    double entered = std::chrono::duration<double>(Clock::now().time_since_epoch()).count(), last = 0;
    if (const int code = MPI_Barrier(c.comm); code != MPI_SUCCESS) return error_text(code);
    const double left = std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
    PMPI_Allreduce(&entered, &last, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    if (left < last) return "a rank leaves the barrier before all have entered it";
  }
  return "";
}

std::string check_bcast(const CheckedCase& c) {
  Doubles data = c.rank == c.root ? sent_values(c.root, c.size()) : Doubles(c.size(), unset_value);
  const int code = MPI_Bcast(data.data(), c.count, MPI_DOUBLE, c.root, c.comm);
  return compare_results(code, data, c.size(), [&](std::size_t i) { return sent_value(c.root, i); });
}

std::string check_reduce(const CheckedCase& c) {
  Doubles send = sent_values(c.rank, c.size()), receive = send;
  const void* from = c.in_place && c.rank == c.root ? MPI_IN_PLACE : send.data();
  const int code = MPI_Reduce(from, receive.data(), c.count, MPI_DOUBLE, MPI_SUM, c.root, c.comm);
  return compare_results(code, receive, c.rank == c.root ? c.size() : 0,
                         [&](std::size_t i) { return sum_over_ranks(c.ranks, i); });
}

std::string check_allreduce(const CheckedCase& c) {
  Doubles send = sent_values(c.rank, c.size()), receive = send;
  const void* from = c.in_place ? MPI_IN_PLACE : send.data();
  const int code = MPI_Allreduce(from, receive.data(), c.count, MPI_DOUBLE, MPI_SUM, c.comm);
  return compare_results(code, receive, c.size(), [&](std::size_t i) { return sum_over_ranks(c.ranks, i); });
}

std::string check_allgather(const CheckedCase& c) {
  Doubles send = sent_values(c.rank, c.size()), receive(c.blocks(), unset_value);
  std::copy(send.begin(), send.end(), receive.begin() + static_cast<long>(c.size()) * c.rank);
  const void* from = c.in_place ? MPI_IN_PLACE : send.data();
  const int code = MPI_Allgather(from, c.count, MPI_DOUBLE, receive.data(), c.count, MPI_DOUBLE, c.comm);
  return compare_results(code, receive, c.blocks(),
                         [&](std::size_t i) { return sent_value(static_cast<int>(i / c.size()), i % c.size()); });
}

std::string check_alltoall(const CheckedCase& c) {
  Doubles send = sent_values(c.rank, c.blocks()), receive = send;
  const void* from = c.in_place ? MPI_IN_PLACE : send.data();
  const int code = MPI_Alltoall(from, c.count, MPI_DOUBLE, receive.data(), c.count, MPI_DOUBLE, c.comm);
  return compare_results(code, receive, c.blocks(), [&](std::size_t i) {
    return sent_value(static_cast<int>(i / c.size()), c.size() * static_cast<std::size_t>(c.rank) + i % c.size());
  });
}

std::string check_reduce_scatter(const CheckedCase& c) {
  const std::vector<int> counts = reduce_scatter_counts(c.count, c.ranks);
  Doubles send = sent_values(c.rank, c.size()), receive(c.size(), unset_value);
  const int code = MPI_Reduce_scatter(send.data(), receive.data(), counts.data(), MPI_DOUBLE, MPI_SUM, c.comm);
  std::size_t first = 0;
  for (int i = 0; i < c.rank; ++i) first += static_cast<std::size_t>(counts[static_cast<std::size_t>(i)]);
  return compare_results(code, receive, static_cast<std::size_t>(counts[static_cast<std::size_t>(c.rank)]),
                         [&](std::size_t i) { return sum_over_ranks(c.ranks, first + i); });
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

std::string check_noncommutative(const MeasuredOperation& operation, const CheckedCase& c) {
  const bool is_reduce = operation.name == std::string("reduce");
  if (!is_reduce && operation.name != std::string("allreduce")) return "";
  MPI_Datatype pair;
  MPI_Op op;
  MPI_Type_contiguous(2, MPI_DOUBLE, &pair);
  MPI_Type_commit(&pair);
  MPI_Op_create(compose_maps, 0, &op);
  const int count = std::max(2 * c.ranks, c.count / 2);  // some algorithms split only long vectors
  std::vector<LinearMap> send(static_cast<std::size_t>(count), LinearMap{-1, 1.0 + c.rank}), receive(send);
  const int code = is_reduce ? MPI_Reduce(send.data(), receive.data(), count, pair, op, c.root, c.comm)
                             : MPI_Allreduce(send.data(), receive.data(), count, pair, op, c.comm);
  MPI_Op_free(&op);
  MPI_Type_free(&pair);
  if (code != MPI_SUCCESS) return error_text(code);
  LinearMap expected{-1, 1};
  for (int i = 1; i < c.ranks; ++i) expected = {-expected.a, -expected.b + 1.0 + i};
  for (const LinearMap& one : receive)
    if ((!is_reduce || c.rank == c.root) && (one.a != expected.a || one.b != expected.b))
      return "wrong results with an operator that does not commute";
  return "";
}

using CheckFunction = std::string (*)(const CheckedCase&);
const std::map<std::string, CheckFunction> checks{
    {"barrier", check_barrier},
    {"bcast", check_bcast},
    {"reduce", check_reduce},
    {"allreduce", check_allreduce},
    {"allgather", check_allgather},
    {"alltoall", check_alltoall},
    {"reduce_scatter", check_reduce_scatter},
};

}  // namespace

std::string find_wrong_result(const MeasuredOperation& operation, MPI_Comm comm, std::size_t bytes, bool any_call) {
  const auto check = checks.find(operation.name);
  if (check == checks.end()) return "nothing checks the results of this operation";
  CheckedCase base{comm, 0, 0, 0, static_cast<int>(bytes / sizeof(double)), false};
  MPI_Comm_rank(comm, &base.rank);
  MPI_Comm_size(comm, &base.ranks);
  std::vector<CheckedCase> cases{base};
  if (bytes > 0 && bytes <= max_bytes_of_all_checks) {
    cases.push_back({comm, base.rank, base.ranks, base.ranks - 1, base.count / 2 + 1, false});
    if (any_call || operation.name != std::string("alltoall"))
      cases.push_back({comm, base.rank, base.ranks, base.ranks - 1, base.count, true});
  }
  std::string problem;
  for (const CheckedCase& one : cases)
    if (std::string found = check->second(one); problem.empty()) problem = found;
  if (any_call)
    if (std::string found = check_noncommutative(operation, base); problem.empty()) problem = found;
  return problem;
}

}  // namespace nearfield::collectives

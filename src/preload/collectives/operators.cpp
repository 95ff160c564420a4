#include "preload/collectives/operators.hpp"

#include "preload/mpi/handles.hpp"

namespace nearfield::collectives {
namespace {

using Kernel = void (*)(void*, const void*, const void*, std::size_t);

template <class T, class Combine>
void combine(void* out, const void* a, const void* b, std::size_t n) {
  auto* const to = static_cast<T*>(out);
  const auto* const left = static_cast<const T*>(a);
  const auto* const right = static_cast<const T*>(b);
#pragma GCC ivdep
  for (std::size_t i = 0; i < n; ++i) to[i] = Combine{}(left[i], right[i]);
}

// clang-format off
// Signed integer sums wrap around on overflow, as in practice in every MPI.
struct Sum { template <class T> T operator()(T a, T b) const { return static_cast<T>(a + b); } };
struct Product { template <class T> T operator()(T a, T b) const { return static_cast<T>(a * b); } };
struct Maximum { template <class T> T operator()(T a, T b) const { return a > b ? a : b; } };
struct Minimum { template <class T> T operator()(T a, T b) const { return a < b ? a : b; } };
struct And { template <class T> T operator()(T a, T b) const { return static_cast<T>(a & b); } };
struct Or { template <class T> T operator()(T a, T b) const { return static_cast<T>(a | b); } };
struct Xor { template <class T> T operator()(T a, T b) const { return static_cast<T>(a ^ b); } };
// clang-format on

template <class Combine>
Kernel kernel_for_integers(Arithmetic arithmetic) {
  switch (arithmetic) {
    case Arithmetic::int8:
      return combine<std::int8_t, Combine>;
    case Arithmetic::uint8:
      return combine<std::uint8_t, Combine>;
    case Arithmetic::int16:
      return combine<std::int16_t, Combine>;
    case Arithmetic::uint16:
      return combine<std::uint16_t, Combine>;
    case Arithmetic::int32:
      return combine<std::int32_t, Combine>;
    case Arithmetic::uint32:
      return combine<std::uint32_t, Combine>;
    case Arithmetic::int64:
      return combine<std::int64_t, Combine>;
    case Arithmetic::uint64:
      return combine<std::uint64_t, Combine>;
    default:
      return nullptr;
  }
}

template <class Combine>
Kernel kernel_for_numbers(Arithmetic arithmetic) {
  if (arithmetic == Arithmetic::float32) return combine<float, Combine>;
  if (arithmetic == Arithmetic::float64) return combine<double, Combine>;
  return kernel_for_integers<Combine>(arithmetic);
}

bool is_floating(Arithmetic arithmetic) {
  return arithmetic == Arithmetic::float32 || arithmetic == Arithmetic::float64;
}

bool is_pair(MPI_Datatype type) {
  for (MPI_Datatype pair : {MPI_2INT, MPI_SHORT_INT, MPI_LONG_INT, MPI_FLOAT_INT, MPI_DOUBLE_INT, MPI_2REAL,
                            MPI_2DOUBLE_PRECISION, MPI_2INTEGER})
    if (type == pair) return true;
  return false;
}

bool is_complex(MPI_Datatype type) {
  for (MPI_Datatype one : {MPI_COMPLEX, MPI_DOUBLE_COMPLEX, MPI_C_FLOAT_COMPLEX, MPI_C_DOUBLE_COMPLEX})
    if (type == one) return true;
  return false;
}

}  // namespace

bool Operator::find(MPI_Op op, MPI_Datatype type, Operator& found) {
  const NamedType* const named = find_named(type);
  if (!named) return false;
  found.width_ = named->extent;
  found.op_ = op;
  found.type_ = type;
  found.kernel_ = nullptr;
  const Arithmetic arithmetic = named->arithmetic;
  if (op == MPI_SUM) found.kernel_ = kernel_for_numbers<Sum>(arithmetic);
  if (op == MPI_PROD) found.kernel_ = kernel_for_numbers<Product>(arithmetic);
  if (op == MPI_MAX) found.kernel_ = kernel_for_integers<Maximum>(arithmetic);
  if (op == MPI_MIN) found.kernel_ = kernel_for_integers<Minimum>(arithmetic);
  if (op == MPI_BAND) found.kernel_ = kernel_for_integers<And>(arithmetic);
  if (op == MPI_BOR) found.kernel_ = kernel_for_integers<Or>(arithmetic);
  if (op == MPI_BXOR) found.kernel_ = kernel_for_integers<Xor>(arithmetic);
  if (found.kernel_) return true;
  // For the remaining pairs MPI_Reduce_local computes, since the results for NaN and for equal values differ between
  // MPI libraries.
  if (op == MPI_MAX || op == MPI_MIN) return is_floating(arithmetic);
  if (op == MPI_LAND || op == MPI_LOR || op == MPI_LXOR)
    return (arithmetic != Arithmetic::none && !is_floating(arithmetic)) || type == MPI_LOGICAL || type == MPI_C_BOOL;
  if (op == MPI_MINLOC || op == MPI_MAXLOC) return is_pair(type);
  return (op == MPI_SUM || op == MPI_PROD) && is_complex(type);
}

void Operator::operator()(void* out, const void* a, const void* b, std::size_t n) const {
  if (kernel_) return kernel_(out, a, b, n);
  if (out != a) std::memcpy(out, a, n * width_);
  PMPI(MPI_Reduce_local)(b, out, static_cast<int>(n), type_, op_);
}

}  // namespace nearfield::collectives

#include "preload/collectives/operators.hpp"

#include "preload/mpi/handles.hpp"

namespace nearfield::collectives {
namespace {

using Kernel = void (*)(void*, const void*, const void*, std::size_t);

template <class T, class Combine>
void combine_elements(void* out, const void* a, const void* b, std::size_t n) {
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
Kernel kernel_for_integers(ElementType arithmetic) {
  switch (arithmetic) {
    case ElementType::int8:
      return combine_elements<std::int8_t, Combine>;
    case ElementType::uint8:
      return combine_elements<std::uint8_t, Combine>;
    case ElementType::int16:
      return combine_elements<std::int16_t, Combine>;
    case ElementType::uint16:
      return combine_elements<std::uint16_t, Combine>;
    case ElementType::int32:
      return combine_elements<std::int32_t, Combine>;
    case ElementType::uint32:
      return combine_elements<std::uint32_t, Combine>;
    case ElementType::int64:
      return combine_elements<std::int64_t, Combine>;
    case ElementType::uint64:
      return combine_elements<std::uint64_t, Combine>;
    default:
      return nullptr;
  }
}

template <class Combine>
Kernel kernel_for_numbers(ElementType arithmetic) {
  if (arithmetic == ElementType::float32) return combine_elements<float, Combine>;
  if (arithmetic == ElementType::float64) return combine_elements<double, Combine>;
  return kernel_for_integers<Combine>(arithmetic);
}

bool is_floating_type(ElementType arithmetic) {
  return arithmetic == ElementType::float32 || arithmetic == ElementType::float64;
}

bool is_pair_type(MPI_Datatype type) {
  for (MPI_Datatype pair : {MPI_2INT, MPI_SHORT_INT, MPI_LONG_INT, MPI_FLOAT_INT, MPI_DOUBLE_INT, MPI_2REAL,
                            MPI_2DOUBLE_PRECISION, MPI_2INTEGER})
    if (type == pair) return true;
  return false;
}

bool is_complex_type(MPI_Datatype type) {
  for (MPI_Datatype one : {MPI_COMPLEX, MPI_DOUBLE_COMPLEX, MPI_C_FLOAT_COMPLEX, MPI_C_DOUBLE_COMPLEX})
    if (type == one) return true;
  return false;
}

}  // namespace

bool Operator::find(MPI_Op op, MPI_Datatype type, Operator& found) {
  const PredefinedType* const named = find_predefined_type(type);
  if (!named) return false;
  found.width_ = named->extent;
  found.op_ = op;
  found.type_ = type;
  found.kernel_ = nullptr;
  const ElementType arithmetic = named->arithmetic;
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
  if (op == MPI_MAX || op == MPI_MIN) return is_floating_type(arithmetic);
  if (op == MPI_LAND || op == MPI_LOR || op == MPI_LXOR)
    return (arithmetic != ElementType::none && !is_floating_type(arithmetic)) || type == MPI_LOGICAL ||
           type == MPI_C_BOOL;
  if (op == MPI_MINLOC || op == MPI_MAXLOC) return is_pair_type(type);
  return (op == MPI_SUM || op == MPI_PROD) && is_complex_type(type);
}

void Operator::operator()(void* out, const void* a, const void* b, std::size_t n) const {
  if (kernel_) return kernel_(out, a, b, n);
  if (out != a) std::memcpy(out, a, n * width_);
  PMPI(MPI_Reduce_local)(b, out, static_cast<int>(n), type_, op_);
}

}  // namespace nearfield::collectives

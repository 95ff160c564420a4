#include "preload/collectives/operators.hpp"

#include "preload/mpi/handles.hpp"

namespace nearfield::collectives {
namespace {

using CombineFunction = void (*)(void*, const void*, const void*, std::size_t);

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
CombineFunction combine_function_for_integers(ElementType element_type) {
  switch (element_type) {
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
CombineFunction combine_function_for_numbers(ElementType element_type) {
  if (element_type == ElementType::float32) return combine_elements<float, Combine>;
  if (element_type == ElementType::float64) return combine_elements<double, Combine>;
  return combine_function_for_integers<Combine>(element_type);
}

bool is_floating_type(ElementType element_type) {
  return element_type == ElementType::float32 || element_type == ElementType::float64;
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

bool Operator::find_operator(MPI_Op op, MPI_Datatype type, Operator& result) {
  const PredefinedType* const predefined = find_predefined_type(type);
  if (!predefined) return false;
  result.element_extent_bytes_ = predefined->extent_bytes;
  result.op_ = op;
  result.type_ = type;
  result.combine_ = nullptr;
  const ElementType element_type = predefined->element_type;
  if (op == MPI_SUM) result.combine_ = combine_function_for_numbers<Sum>(element_type);
  if (op == MPI_PROD) result.combine_ = combine_function_for_numbers<Product>(element_type);
  if (op == MPI_MAX) result.combine_ = combine_function_for_integers<Maximum>(element_type);
  if (op == MPI_MIN) result.combine_ = combine_function_for_integers<Minimum>(element_type);
  if (op == MPI_BAND) result.combine_ = combine_function_for_integers<And>(element_type);
  if (op == MPI_BOR) result.combine_ = combine_function_for_integers<Or>(element_type);
  if (op == MPI_BXOR) result.combine_ = combine_function_for_integers<Xor>(element_type);
  if (result.combine_) return true;
  // For the remaining pairs MPI_Reduce_local computes, since the results for NaN and for equal values differ between
  // MPI libraries.
  if (op == MPI_MAX || op == MPI_MIN) return is_floating_type(element_type);
  if (op == MPI_LAND || op == MPI_LOR || op == MPI_LXOR)
    return (element_type != ElementType::none && !is_floating_type(element_type)) || type == MPI_LOGICAL ||
           type == MPI_C_BOOL;
  if (op == MPI_MINLOC || op == MPI_MAXLOC) return is_pair_type(type);
  return (op == MPI_SUM || op == MPI_PROD) && is_complex_type(type);
}

void Operator::operator()(void* out, const void* a, const void* b, std::size_t n) const {
  if (combine_) return combine_(out, a, b, n);
  if (out != a) std::memcpy(out, a, n * element_extent_bytes_);
  PMPI(MPI_Reduce_local)(b, out, static_cast<int>(n), type_, op_);
}

}  // namespace nearfield::collectives

#include "preload/collectives/datatypes.hpp"

#include <mutex>
#include <unordered_map>

#include "preload/mpi/handles.hpp"

namespace nearfield::collectives {
namespace {

// Returns the handle, which is a pointer or an integer, as an integer.
std::uint64_t handle_bits(MPI_Datatype type) {
  std::uint64_t handle = 0;
  std::memcpy(&handle, &type, sizeof type);
  return handle;
}

ElementType integer_element_type(std::size_t bytes, bool is_signed) {
  switch (bytes) {
    case 1:
      return is_signed ? ElementType::int8 : ElementType::uint8;
    case 2:
      return is_signed ? ElementType::int16 : ElementType::uint16;
    case 4:
      return is_signed ? ElementType::int32 : ElementType::uint32;
    case 8:
      return is_signed ? ElementType::int64 : ElementType::uint64;
    default:
      return ElementType::none;
  }
}

ElementType floating_element_type(std::size_t bytes) {
  return bytes == 4 ? ElementType::float32 : bytes == 8 ? ElementType::float64 : ElementType::none;
}

// A hash table of the predefined datatypes, with open addressing, since each collective looks up its datatype.
class PredefinedTypeTable {
 public:
  PredefinedTypeTable() {
    const auto as_signed = [](std::size_t bytes) { return integer_element_type(bytes, true); };
    const auto as_unsigned = [](std::size_t bytes) { return integer_element_type(bytes, false); };
    const auto without_arithmetic = [](std::size_t) { return ElementType::none; };
    for (MPI_Datatype type : {MPI_SIGNED_CHAR, MPI_SHORT, MPI_INT, MPI_LONG, MPI_LONG_LONG, MPI_INT8_T, MPI_INT16_T,
                              MPI_INT32_T, MPI_INT64_T, MPI_INTEGER, MPI_AINT, MPI_OFFSET, MPI_COUNT})
      add_type(type, as_signed);
    for (MPI_Datatype type : {MPI_UNSIGNED_CHAR, MPI_UNSIGNED_SHORT, MPI_UNSIGNED, MPI_UNSIGNED_LONG,
                              MPI_UNSIGNED_LONG_LONG, MPI_UINT8_T, MPI_UINT16_T, MPI_UINT32_T, MPI_UINT64_T})
      add_type(type, as_unsigned);
    for (MPI_Datatype type : {MPI_FLOAT, MPI_DOUBLE, MPI_REAL, MPI_DOUBLE_PRECISION, MPI_REAL4, MPI_REAL8})
      add_type(type, floating_element_type);
    for (MPI_Datatype type : {MPI_INTEGER1, MPI_INTEGER2, MPI_INTEGER4, MPI_INTEGER8}) add_type(type, as_signed);
    for (MPI_Datatype type : {MPI_CHAR,
                              MPI_BYTE,
                              MPI_PACKED,
                              MPI_WCHAR,
                              MPI_C_BOOL,
                              MPI_CHARACTER,
                              MPI_LOGICAL,
                              MPI_LONG_DOUBLE,
                              MPI_COMPLEX,
                              MPI_DOUBLE_COMPLEX,
                              MPI_C_FLOAT_COMPLEX,
                              MPI_C_DOUBLE_COMPLEX,
                              MPI_C_LONG_DOUBLE_COMPLEX,
                              MPI_CXX_BOOL,
                              MPI_CXX_FLOAT_COMPLEX,
                              MPI_CXX_DOUBLE_COMPLEX,
                              MPI_CXX_LONG_DOUBLE_COMPLEX,
                              MPI_2INT,
                              MPI_SHORT_INT,
                              MPI_LONG_INT,
                              MPI_FLOAT_INT,
                              MPI_DOUBLE_INT,
                              MPI_LONG_DOUBLE_INT,
                              MPI_2REAL,
                              MPI_2DOUBLE_PRECISION,
                              MPI_2INTEGER})
      add_type(type, without_arithmetic);
  }

  const PredefinedType* find(MPI_Datatype type) const {
    const std::uint64_t handle = handle_bits(type);
    for (std::size_t index = slot_index_of(handle); slots_[index].handle != 0; index = (index + 1) % num_slots)
      if (slots_[index].handle == handle) return &slots_[index].type;
    return nullptr;
  }

 private:
  static constexpr std::size_t num_slots = 256;
  struct Slot {
    std::uint64_t handle = 0;
    PredefinedType type{};
  };

  static std::size_t slot_index_of(std::uint64_t handle) { return (handle ^ handle >> 8 ^ handle >> 16) % num_slots; }

  template <class Classify>
  void add_type(MPI_Datatype type, Classify classify) {
    int bytes = 0;
    MPI_Aint lower = 0, extent = 0;
    if (type == MPI_DATATYPE_NULL || handle_bits(type) == 0 || find(type)) return;
    if (PMPI(MPI_Type_size)(type, &bytes) != MPI_SUCCESS || bytes <= 0) return;  // a Fortran type without support
    PMPI(MPI_Type_get_extent)(type, &lower, &extent);
    std::size_t index = slot_index_of(handle_bits(type));
    while (slots_[index].handle != 0) index = (index + 1) % num_slots;
    const auto size_bytes = static_cast<std::size_t>(bytes);
    slots_[index] = {handle_bits(type), {size_bytes, static_cast<std::size_t>(extent), classify(size_bytes)}};
  }

  Slot slots_[num_slots];
};

// Calls `pack(first element, number of elements)` for parts of at most 1 GiB, since MPI_Pack counts bytes as int.
template <class Pack>
void for_each_part(std::int64_t count, MPI_Datatype type, Pack pack) {
  const std::int64_t bytes = type_size(type);
  const std::int64_t max_elements = bytes > 0 ? std::max<std::int64_t>((std::int64_t{1} << 30) / bytes, 1) : count;
  for (std::int64_t first = 0; first < count; first += max_elements)
    pack(first, static_cast<int>(std::min(max_elements, count - first)));
}

}  // namespace

const PredefinedType* find_predefined_type(MPI_Datatype type) {
  static const PredefinedTypeTable& types = *new PredefinedTypeTable;
  return types.find(type);
}

std::int64_t type_size(MPI_Datatype type) {
  if (const PredefinedType* predefined = find_predefined_type(type))
    return static_cast<std::int64_t>(predefined->bytes);
  MPI_Count bytes = -1;
  return PMPI(MPI_Type_size_x)(type, &bytes) == MPI_SUCCESS ? bytes : -1;
}

std::int64_t type_extent(MPI_Datatype type) {
  if (const PredefinedType* predefined = find_predefined_type(type))
    return static_cast<std::int64_t>(predefined->extent_bytes);
  MPI_Aint lower = 0, extent = 0;
  PMPI(MPI_Type_get_extent)(type, &lower, &extent);
  return extent;
}

SendBuffer::SendBuffer(const void* buffer, std::int64_t count, MPI_Datatype type, MPI_Comm comm)
    : data_(static_cast<const Bytes*>(buffer)), bytes_(static_cast<std::size_t>(count * type_size(type))) {
  const PredefinedType* predefined = find_predefined_type(type);
  if ((predefined && predefined->is_contiguous()) || bytes_ == 0) return;
  copy_ = allocate_buffer(bytes_);
  const auto extent = type_extent(type);
  std::size_t packed_bytes = 0;
  for_each_part(count, type, [&](std::int64_t first, int elements) {
    int position = 0;
    const auto part = static_cast<std::size_t>(elements * type_size(type));
    PMPI(MPI_Pack)(data_ + first * extent, elements, type, copy_.get() + packed_bytes, static_cast<int>(part),
                   &position, comm);
    packed_bytes += part;
  });
  data_ = copy_.get();
}

void SendBuffer::ensure_private_copy() {
  if (copy_ || bytes_ == 0) return;
  copy_ = allocate_buffer(bytes_);
  data_ = static_cast<const Bytes*>(std::memcpy(copy_.get(), data_, bytes_));
}

ReceiveBuffer::ReceiveBuffer(void* buffer, std::int64_t count, MPI_Datatype type, MPI_Comm comm)
    : buffer_(buffer),
      count_(count),
      type_(type),
      comm_(comm),
      data_(static_cast<Bytes*>(buffer)),
      bytes_(static_cast<std::size_t>(count * type_size(type))) {
  const PredefinedType* predefined = find_predefined_type(type);
  if ((predefined && predefined->is_contiguous()) || bytes_ == 0) return;
  copy_ = allocate_buffer(bytes_);
  data_ = copy_.get();
}

void ReceiveBuffer::unpack() {
  if (!copy_) return;
  const auto extent = type_extent(type_);
  std::size_t packed_bytes = 0;
  for_each_part(count_, type_, [&](std::int64_t first, int elements) {
    int position = 0;
    const auto part = static_cast<std::size_t>(elements * type_size(type_));
    PMPI(MPI_Unpack)(copy_.get() + packed_bytes, static_cast<int>(part), &position,
                     static_cast<Bytes*>(buffer_) + first * extent, elements, type_, comm_);
    packed_bytes += part;
  });
}

}  // namespace nearfield::collectives

#include "preload/observe/mpi/flatten.hpp"

#include <algorithm>

#include "preload/observe/mpi/wrapper.hpp"

namespace nearfield::observe {
namespace {

using Numbers = std::vector<std::int64_t>;

// The arguments of the function that created a datatype: its datatypes, and in one list its integers, addresses and
// large counts, in the order of the function's parameters.
struct TypeContents {
  int combiner = MPI_COMBINER_NAMED;
  Numbers numbers;
  std::vector<MPI_Datatype> types;
};

bool is_derived(int combiner) {
  return combiner != MPI_COMBINER_NAMED && combiner != MPI_COMBINER_F90_INTEGER && combiner != MPI_COMBINER_F90_REAL &&
         combiner != MPI_COMBINER_F90_COMPLEX;
}

#if MPI_VERSION >= 4
using Length = MPI_Count;
struct ContentLengths {
  Length integers = 0, addresses = 0, large = 0, types = 0;
  int combiner = 0;
  explicit ContentLengths(MPI_Datatype type) {
    PMPI(MPI_Type_get_envelope_c)(type, &integers, &addresses, &large, &types, &combiner);
  }
};
void get_contents(MPI_Datatype type, const ContentLengths& n, int* integers, MPI_Aint* addresses, MPI_Count* large,
                  MPI_Datatype* types) {
  PMPI(MPI_Type_get_contents_c)(type, n.integers, n.addresses, n.large, n.types, integers, addresses, large, types);
}
#else
struct ContentLengths {
  int integers = 0, addresses = 0, large = 0, types = 0;
  int combiner = 0;
  explicit ContentLengths(MPI_Datatype type) {
    PMPI(MPI_Type_get_envelope)(type, &integers, &addresses, &types, &combiner);
  }
};
void get_contents(MPI_Datatype type, const ContentLengths& n, int* integers, MPI_Aint* addresses, MPI_Count*,
                  MPI_Datatype* types) {
  PMPI(MPI_Type_get_contents)(type, n.integers, n.addresses, n.types, integers, addresses, types);
}
#endif

TypeContents contents_of(MPI_Datatype type) {
  const ContentLengths lengths(type);
  TypeContents found{lengths.combiner, {}, {}};
  if (!is_derived(lengths.combiner)) return found;
  std::vector<int> integers(static_cast<std::size_t>(lengths.integers) + 1);
  std::vector<MPI_Aint> addresses(static_cast<std::size_t>(lengths.addresses) + 1);
  std::vector<MPI_Count> large(static_cast<std::size_t>(lengths.large) + 1);
  found.types.resize(static_cast<std::size_t>(lengths.types));
  get_contents(type, lengths, integers.data(), addresses.data(), large.data(), found.types.data());
  found.numbers.assign(integers.begin(), integers.end() - 1);
  found.numbers.insert(found.numbers.end(), addresses.begin(), addresses.end() - 1);
  found.numbers.insert(found.numbers.end(), large.begin(), large.end() - 1);
  return found;
}

void free_contained_types(TypeContents& contents) {
  for (MPI_Datatype& type : contents.types)
    if (is_derived(ContentLengths(type).combiner)) PMPI(MPI_Type_free)(&type);
}

std::int64_t extent_of(MPI_Datatype type) {
  MPI_Count lower = 0, extent = 0;
  PMPI(MPI_Type_get_extent_x)(type, &lower, &extent);
  return extent;
}

// Flattens a predefined datatype: one block or, for pairs such as MPI_SHORT_INT, a block for the value and a block for
// the int at the end.
Runs flatten_basic(MPI_Datatype type) {
  MPI_Count size = 0, lower = 0, extent = 0;
  PMPI(MPI_Type_size_x)(type, &size);
  PMPI(MPI_Type_get_true_extent_x)(type, &lower, &extent);
  Runs runs;
  constexpr MPI_Count last = sizeof(int);
  if (size >= extent) {
    runs.add({0, static_cast<stream::Number>(size), 1, 0});
  } else {
    runs.add({0, static_cast<stream::Number>(size - last), 1, 0});
    runs.add({extent - last, static_cast<stream::Number>(last), 1, 0});
  }
  return runs;
}

// The runs of blocks and the extent of one element of a datatype under construction.
struct Element {
  Runs runs;
  std::int64_t extent;
};

Runs flatten_vector(const Element& element, const Numbers& n, std::int64_t stride_unit) {
  Runs block, all;
  block.add_copies(element.runs, 0, n[1], element.extent);
  all.add_copies(block, 0, n[0], n[2] * stride_unit);
  return all;
}

// Flattens an indexed datatype: block i has `length(i)` elements and begins at `displacement(i)` bytes.
Runs flatten_blocks(const Element& element, std::int64_t blocks, auto length, auto displacement) {
  Runs all;
  for (std::int64_t i = 0; i < blocks && !all.is_truncated(); ++i)
    all.add_copies(element.runs, displacement(i), length(i), element.extent);
  return all;
}

// `n` contains the number of blocks, their lengths, and their displacements in multiples of `unit` bytes.
Runs flatten_indexed(const Element& element, const Numbers& n, std::int64_t unit) {
  const auto at = [&](std::int64_t i) { return n[static_cast<std::size_t>(i)]; };
  return flatten_blocks(
      element, n[0], [&](std::int64_t i) { return at(1 + i); },
      [&](std::int64_t i) { return at(1 + n[0] + i) * unit; });
}

// `n` contains the number of blocks, their common length, and their displacements in multiples of `unit` bytes.
Runs flatten_indexed_block(const Element& element, const Numbers& n, std::int64_t unit) {
  return flatten_blocks(
      element, n[0], [&](std::int64_t) { return n[1]; },
      [&](std::int64_t i) { return n[static_cast<std::size_t>(2 + i)] * unit; });
}

Runs flatten_struct(const std::vector<MPI_Datatype>& types, const Numbers& n) {
  Runs all;
  for (std::size_t i = 0; i < types.size() && !all.is_truncated(); ++i)
    all.add_copies(flatten_datatype(types[i]), n[1 + types.size() + i], n[1 + i], extent_of(types[i]));
  return all;
}

// The elements [start, start + length) of one dimension of an array.
struct IndexRange {
  std::int64_t start, length;
};

// Flattens a part of an array. Dimension d has `sizes[d]` elements, of which the part contains the ranges `parts[d]`.
// In Fortran's order the first dimension is innermost.
Runs flatten_array(Element element, const Numbers& sizes, const std::vector<std::vector<IndexRange>>& parts,
                   int order) {
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::size_t d = order == MPI_ORDER_C ? sizes.size() - 1 - i : i;
    Runs next;
    for (const IndexRange& part : parts[d])
      next.add_copies(element.runs, part.start * element.extent, part.length, element.extent);
    element = {std::move(next), element.extent * sizes[d]};
  }
  return std::move(element.runs);
}

// `n` contains the number of dimensions, sizes, subsizes, starts and order; with large counts the order comes second.
Runs flatten_subarray(const Element& element, Numbers n, bool is_large) {
  if (is_large) std::rotate(n.begin() + 1, n.begin() + 2, n.end());
  const auto dimensions = static_cast<std::size_t>(n[0]);
  const Numbers sizes(n.begin() + 1, n.begin() + 1 + n[0]);
  std::vector<std::vector<IndexRange>> parts;
  for (std::size_t d = 0; d < dimensions; ++d) parts.push_back({{n[1 + 2 * dimensions + d], n[1 + dimensions + d]}});
  return flatten_array(element, sizes, parts, static_cast<int>(n.back()));
}

// Returns the ranges of a distributed dimension of `size` elements that belong to process `place` of `places`.
std::vector<IndexRange> ranges_of_process(std::int64_t size, std::int64_t kind, std::int64_t argument,
                                          std::int64_t places, std::int64_t place) {
  if (kind == MPI_DISTRIBUTE_NONE) return {{0, size}};
  std::int64_t block = argument;
  if (argument == MPI_DISTRIBUTE_DFLT_DARG) block = kind == MPI_DISTRIBUTE_BLOCK ? (size + places - 1) / places : 1;
  std::vector<IndexRange> parts;
  for (std::int64_t start = place * block; start < size; start += places * block)
    parts.push_back({start, std::min(block, size - start)});
  return parts;
}

// `n` contains the number of processes, rank, number of dimensions, sizes, distributions, distribution arguments,
// processes per dimension and order; large sizes come last.
Runs flatten_distributed(const Element& element, Numbers n, bool is_large) {
  if (is_large) std::rotate(n.begin() + 3, n.end() - n[2], n.end());
  const auto dimensions = static_cast<std::size_t>(n[2]);
  const auto of = [&](std::size_t list, std::size_t d) { return n[3 + list * dimensions + d]; };
  std::vector<std::vector<IndexRange>> parts(dimensions);
  std::int64_t rest = n[1];
  for (std::size_t d = dimensions; d-- > 0; rest /= of(3, d))
    parts[d] = ranges_of_process(of(0, d), of(1, d), of(2, d), of(3, d), rest % of(3, d));
  const Numbers sizes(n.begin() + 3, n.begin() + 3 + n[2]);
  return flatten_array(element, sizes, parts, static_cast<int>(n.back()));
}

Runs flatten_by(const TypeContents& contents, bool is_large) {
  const Numbers& n = contents.numbers;
  if (contents.combiner == MPI_COMBINER_STRUCT) return flatten_struct(contents.types, n);
  const Element element{flatten_datatype(contents.types.front()), extent_of(contents.types.front())};
  Runs runs;
  switch (contents.combiner) {
    case MPI_COMBINER_CONTIGUOUS:
      runs.add_copies(element.runs, 0, n[0], element.extent);
      return runs;
    case MPI_COMBINER_VECTOR:
      return flatten_vector(element, n, element.extent);
    case MPI_COMBINER_HVECTOR:
      return flatten_vector(element, n, 1);
    case MPI_COMBINER_INDEXED:
      return flatten_indexed(element, n, element.extent);
    case MPI_COMBINER_HINDEXED:
      return flatten_indexed(element, n, 1);
    case MPI_COMBINER_INDEXED_BLOCK:
      return flatten_indexed_block(element, n, element.extent);
    case MPI_COMBINER_HINDEXED_BLOCK:
      return flatten_indexed_block(element, n, 1);
    case MPI_COMBINER_SUBARRAY:
      return flatten_subarray(element, n, is_large);
    case MPI_COMBINER_DARRAY:
      return flatten_distributed(element, n, is_large);
    default:
      return element.runs;  // MPI_COMBINER_DUP, MPI_COMBINER_RESIZED
  }
}

}  // namespace

Runs flatten_datatype(MPI_Datatype type) {
  TypeContents contents = contents_of(type);
  if (!is_derived(contents.combiner)) return flatten_basic(type);
  if (contents.types.empty()) return {};  // an empty MPI_Type_create_struct
  const Runs runs = flatten_by(contents, ContentLengths(type).large > 0);
  free_contained_types(contents);
  return runs;
}

const char* constructor_of(MPI_Datatype type) {
  switch (ContentLengths(type).combiner) {
    case MPI_COMBINER_DUP:
      return "dup";
    case MPI_COMBINER_CONTIGUOUS:
      return "contiguous";
    case MPI_COMBINER_VECTOR:
      return "vector";
    case MPI_COMBINER_HVECTOR:
      return "hvector";
    case MPI_COMBINER_INDEXED:
      return "indexed";
    case MPI_COMBINER_HINDEXED:
      return "hindexed";
    case MPI_COMBINER_INDEXED_BLOCK:
      return "indexed_block";
    case MPI_COMBINER_HINDEXED_BLOCK:
      return "hindexed_block";
    case MPI_COMBINER_STRUCT:
      return "struct";
    case MPI_COMBINER_SUBARRAY:
      return "subarray";
    case MPI_COMBINER_DARRAY:
      return "darray";
    case MPI_COMBINER_RESIZED:
      return "resized";
    default:
      return "";
  }
}

}  // namespace nearfield::observe

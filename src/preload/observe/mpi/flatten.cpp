#include "preload/observe/mpi/flatten.hpp"

#include <algorithm>

#include "preload/observe/mpi/wrapper.hpp"

namespace nearfield::observe {
namespace {

using TypeArguments = std::vector<std::int64_t>;

// The arguments of the function that created a datatype: its datatypes, and in one list its integers, addresses and
// large counts, in the order of the function's parameters.
struct TypeContents {
  int combiner = MPI_COMBINER_NAMED;
  TypeArguments numbers;
  std::vector<MPI_Datatype> types;
};

bool is_derived(int combiner) {
  return combiner != MPI_COMBINER_NAMED && combiner != MPI_COMBINER_F90_INTEGER && combiner != MPI_COMBINER_F90_REAL &&
         combiner != MPI_COMBINER_F90_COMPLEX;
}

#if MPI_VERSION >= 4
using Length = MPI_Count;
struct ContentLengths {
  Length num_integers = 0, num_addresses = 0, num_large_counts = 0, num_types = 0;
  int combiner = 0;
  explicit ContentLengths(MPI_Datatype type) {
    PMPI(MPI_Type_get_envelope_c)(type, &num_integers, &num_addresses, &num_large_counts, &num_types, &combiner);
  }
};
void get_contents(MPI_Datatype type, const ContentLengths& arguments, int* integers, MPI_Aint* addresses,
                  MPI_Count* large_counts, MPI_Datatype* types) {
  PMPI(MPI_Type_get_contents_c)(type, arguments.num_integers, arguments.num_addresses, arguments.num_large_counts,
                                arguments.num_types, integers, addresses, large_counts, types);
}
#else
struct ContentLengths {
  int num_integers = 0, num_addresses = 0, num_large_counts = 0, num_types = 0;
  int combiner = 0;
  explicit ContentLengths(MPI_Datatype type) {
    PMPI(MPI_Type_get_envelope)(type, &num_integers, &num_addresses, &num_types, &combiner);
  }
};
void get_contents(MPI_Datatype type, const ContentLengths& arguments, int* integers, MPI_Aint* addresses, MPI_Count*,
                  MPI_Datatype* types) {
  PMPI(MPI_Type_get_contents)(type, arguments.num_integers, arguments.num_addresses, arguments.num_types, integers,
                              addresses, types);
}
#endif

TypeContents contents_of(MPI_Datatype type) {
  const ContentLengths lengths(type);
  TypeContents contents{lengths.combiner, {}, {}};
  if (!is_derived(lengths.combiner)) return contents;
  std::vector<int> integers(static_cast<std::size_t>(lengths.num_integers) + 1);
  std::vector<MPI_Aint> addresses(static_cast<std::size_t>(lengths.num_addresses) + 1);
  std::vector<MPI_Count> large_counts(static_cast<std::size_t>(lengths.num_large_counts) + 1);
  contents.types.resize(static_cast<std::size_t>(lengths.num_types));
  get_contents(type, lengths, integers.data(), addresses.data(), large_counts.data(), contents.types.data());
  contents.numbers.assign(integers.begin(), integers.end() - 1);
  contents.numbers.insert(contents.numbers.end(), addresses.begin(), addresses.end() - 1);
  contents.numbers.insert(contents.numbers.end(), large_counts.begin(), large_counts.end() - 1);
  return contents;
}

void free_contained_types(TypeContents& contents) {
  for (MPI_Datatype& type : contents.types)
    if (is_derived(ContentLengths(type).combiner)) PMPI(MPI_Type_free)(&type);
}

std::int64_t type_extent(MPI_Datatype type) {
  MPI_Count lower = 0, extent_bytes = 0;
  PMPI(MPI_Type_get_extent_x)(type, &lower, &extent_bytes);
  return extent_bytes;
}

// Flattens a predefined datatype: one block or, for pairs such as MPI_SHORT_INT, a block for the value and a block for
// the int at the end.
BlockRuns flatten_predefined(MPI_Datatype type) {
  MPI_Count size = 0, lower = 0, extent_bytes = 0;
  PMPI(MPI_Type_size_x)(type, &size);
  PMPI(MPI_Type_get_true_extent_x)(type, &lower, &extent_bytes);
  BlockRuns runs;
  constexpr MPI_Count last = sizeof(int);
  if (size >= extent_bytes) {
    runs.add_run({0, static_cast<stream::Number>(size), 1, 0});
  } else {
    runs.add_run({0, static_cast<stream::Number>(size - last), 1, 0});
    runs.add_run({extent_bytes - last, static_cast<stream::Number>(last), 1, 0});
  }
  return runs;
}

// The runs of blocks and the extent of one element of a datatype under construction.
struct FlattenedElement {
  BlockRuns runs;
  std::int64_t extent_bytes;
};

BlockRuns flatten_vector(const FlattenedElement& element, const TypeArguments& arguments, std::int64_t stride_unit) {
  BlockRuns block, runs;
  block.add_copies(element.runs, 0, arguments[1], element.extent_bytes);
  runs.add_copies(block, 0, arguments[0], arguments[2] * stride_unit);
  return runs;
}

// Flattens an indexed datatype: block i has `length(i)` elements and begins at `displacement(i)` bytes.
BlockRuns flatten_blocks(const FlattenedElement& element, std::int64_t blocks, auto length, auto displacement) {
  BlockRuns runs;
  for (std::int64_t i = 0; i < blocks && !runs.is_truncated(); ++i)
    runs.add_copies(element.runs, displacement(i), length(i), element.extent_bytes);
  return runs;
}

// `arguments` contains the number of blocks, their lengths, and their displacements in multiples of `unit` bytes.
BlockRuns flatten_indexed(const FlattenedElement& element, const TypeArguments& arguments, std::int64_t unit) {
  const auto at = [&](std::int64_t i) { return arguments[static_cast<std::size_t>(i)]; };
  return flatten_blocks(
      element, arguments[0], [&](std::int64_t i) { return at(1 + i); },
      [&](std::int64_t i) { return at(1 + arguments[0] + i) * unit; });
}

// `arguments` contains the number of blocks, their common length, and their displacements in multiples of `unit` bytes.
BlockRuns flatten_indexed_block(const FlattenedElement& element, const TypeArguments& arguments, std::int64_t unit) {
  return flatten_blocks(
      element, arguments[0], [&](std::int64_t) { return arguments[1]; },
      [&](std::int64_t i) { return arguments[static_cast<std::size_t>(2 + i)] * unit; });
}

BlockRuns flatten_struct(const std::vector<MPI_Datatype>& types, const TypeArguments& arguments) {
  BlockRuns runs;
  for (std::size_t i = 0; i < types.size() && !runs.is_truncated(); ++i)
    runs.add_copies(flatten_datatype(types[i]), arguments[1 + types.size() + i], arguments[1 + i],
                    type_extent(types[i]));
  return runs;
}

// The elements [start, start + length) of one dimension of an array.
struct IndexRange {
  std::int64_t start, length;
};

// Flattens a part of an array. Dimension d has `sizes[d]` elements; the part contains the ranges `parts[d]` of them. In
// Fortran's order the first dimension is innermost.
BlockRuns flatten_array(FlattenedElement element, const TypeArguments& sizes,
                        const std::vector<std::vector<IndexRange>>& parts, int order) {
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::size_t d = order == MPI_ORDER_C ? sizes.size() - 1 - i : i;
    BlockRuns next;
    for (const IndexRange& part : parts[d])
      next.add_copies(element.runs, part.start * element.extent_bytes, part.length, element.extent_bytes);
    element = {std::move(next), element.extent_bytes * sizes[d]};
  }
  return std::move(element.runs);
}

// `arguments` contains the number of dimensions, sizes, subsizes, starts and order; with large counts the order comes
// second.
BlockRuns flatten_subarray(const FlattenedElement& element, TypeArguments arguments, bool has_large_counts) {
  if (has_large_counts) std::rotate(arguments.begin() + 1, arguments.begin() + 2, arguments.end());
  const auto dimensions = static_cast<std::size_t>(arguments[0]);
  const TypeArguments sizes(arguments.begin() + 1, arguments.begin() + 1 + arguments[0]);
  std::vector<std::vector<IndexRange>> parts;
  for (std::size_t d = 0; d < dimensions; ++d)
    parts.push_back({{arguments[1 + 2 * dimensions + d], arguments[1 + dimensions + d]}});
  return flatten_array(element, sizes, parts, static_cast<int>(arguments.back()));
}

// Returns the ranges of a distributed dimension of `size` elements that belong to process `process` of `num_processes`.
std::vector<IndexRange> ranges_of_process(std::int64_t size, std::int64_t distribution, std::int64_t argument,
                                          std::int64_t num_processes, std::int64_t process) {
  if (distribution == MPI_DISTRIBUTE_NONE) return {{0, size}};
  std::int64_t block_length = argument;
  if (argument == MPI_DISTRIBUTE_DFLT_DARG)
    block_length = distribution == MPI_DISTRIBUTE_BLOCK ? (size + num_processes - 1) / num_processes : 1;
  std::vector<IndexRange> parts;
  for (std::int64_t start = process * block_length; start < size; start += num_processes * block_length)
    parts.push_back({start, std::min(block_length, size - start)});
  return parts;
}

// `arguments` contains the number of processes, rank, number of dimensions, sizes, distributions, distribution
// arguments, processes per dimension and order; large sizes come last.
BlockRuns flatten_distributed(const FlattenedElement& element, TypeArguments arguments, bool has_large_counts) {
  if (has_large_counts) std::rotate(arguments.begin() + 3, arguments.end() - arguments[2], arguments.end());
  const auto dimensions = static_cast<std::size_t>(arguments[2]);
  const auto argument_of = [&](std::size_t list, std::size_t d) { return arguments[3 + list * dimensions + d]; };
  std::vector<std::vector<IndexRange>> parts(dimensions);
  std::int64_t remaining_rank = arguments[1];
  for (std::size_t d = dimensions; d-- > 0; remaining_rank /= argument_of(3, d))
    parts[d] = ranges_of_process(argument_of(0, d), argument_of(1, d), argument_of(2, d), argument_of(3, d),
                                 remaining_rank % argument_of(3, d));
  const TypeArguments sizes(arguments.begin() + 3, arguments.begin() + 3 + arguments[2]);
  return flatten_array(element, sizes, parts, static_cast<int>(arguments.back()));
}

BlockRuns flatten_derived(const TypeContents& contents, bool has_large_counts) {
  const TypeArguments& arguments = contents.numbers;
  if (contents.combiner == MPI_COMBINER_STRUCT) return flatten_struct(contents.types, arguments);
  const FlattenedElement element{flatten_datatype(contents.types.front()), type_extent(contents.types.front())};
  BlockRuns runs;
  switch (contents.combiner) {
    case MPI_COMBINER_CONTIGUOUS:
      runs.add_copies(element.runs, 0, arguments[0], element.extent_bytes);
      return runs;
    case MPI_COMBINER_VECTOR:
      return flatten_vector(element, arguments, element.extent_bytes);
    case MPI_COMBINER_HVECTOR:
      return flatten_vector(element, arguments, 1);
    case MPI_COMBINER_INDEXED:
      return flatten_indexed(element, arguments, element.extent_bytes);
    case MPI_COMBINER_HINDEXED:
      return flatten_indexed(element, arguments, 1);
    case MPI_COMBINER_INDEXED_BLOCK:
      return flatten_indexed_block(element, arguments, element.extent_bytes);
    case MPI_COMBINER_HINDEXED_BLOCK:
      return flatten_indexed_block(element, arguments, 1);
    case MPI_COMBINER_SUBARRAY:
      return flatten_subarray(element, arguments, has_large_counts);
    case MPI_COMBINER_DARRAY:
      return flatten_distributed(element, arguments, has_large_counts);
    default:
      return element.runs;  // MPI_COMBINER_DUP, MPI_COMBINER_RESIZED
  }
}

}  // namespace

BlockRuns flatten_datatype(MPI_Datatype type) {
  TypeContents contents = contents_of(type);
  if (!is_derived(contents.combiner)) return flatten_predefined(type);
  if (contents.types.empty()) return {};  // an empty MPI_Type_create_struct
  const BlockRuns runs = flatten_derived(contents, ContentLengths(type).num_large_counts > 0);
  free_contained_types(contents);
  return runs;
}

const char* constructor_name_of(MPI_Datatype type) {
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

// What collectives_random.cpp sends and reduces: values, types, buffers, and other communication during a call.
#pragma once
#include <mpi.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string>
#include <type_traits>
#include <vector>

namespace {

using Byte = unsigned char;
using Word = std::uint64_t;
constexpr int max_threads = 3, item_elements = 6;  // of an item of a derived type
constexpr std::size_t fixed_bytes = std::size_t{64} << 10, max_elements = 100000, max_bytes = std::size_t{1} << 20;
int own = 0, ranks = 0;
bool is_one_node = false;

enum Synchronising : int { barrier };
enum Rooted : int { bcast = 1, gather, gatherv, scatter, scatterv };
enum Unrooted : int { allgather = 6, allgatherv, alltoall, alltoallv, alltoallw };
enum Reducing : int { reduce = 11, allreduce, reduce_scatter_block, reduce_scatter, scan, exscan, operations };
constexpr const char* names[] = {
    "Barrier",        "Bcast",    "Gather",    "Gatherv",   "Scatter", "Scatterv",  "Allgather",
    "Allgatherv",     "Alltoall", "Alltoallv", "Alltoallw", "Reduce",  "Allreduce", "Reduce_scatter_block",
    "Reduce_scatter", "Scan",     "Exscan"};

struct Communicator {
  const char* name = "";
  MPI_Comm comm = MPI_COMM_NULL;
  int rank = 0, size = 0, remote_size = 0;  // the remote size is 0 unless this is an intercommunicator
  Word colour = 0;
};

// The call that a thread makes in its current step.
struct Call {
  long step = 0;
  int thread = 0, operation = 0, root = 0, kind = 0, reduction = -1;
  Word key = 0;
  Communicator on;
  std::size_t count = 0;
  bool is_root = false, is_root_far = false;  // the root may be in the other group of an intercommunicator
  bool is_in_place = false, is_derived = false, has_no_gaps = false, has_message = false, has_iallreduce = false,
       has_ibarrier = false;
};
thread_local Call call;

[[noreturn]] void fail(const std::string& what);
void check(bool holds, const char* what) {
  if (!holds) fail(what);
}

Word mix(Word a, Word b) {
  a = (a ^ b) * 0x9e3779b97f4a7c15u;
  a = (a ^ a >> 32) * 0xd6e8feb86659fd93u;
  return a ^ a >> 32;
}

struct Random {
  Word state;
  std::size_t below(std::size_t n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % n;
  }
};

// What MPI_2INT and MPI_DOUBLE_INT describe, and an element whose product depends on the order of the factors.
struct IntPair {
  int value, index;
};
struct DoublePair {
  double value;
  int index, padding;
};
struct Matrix {
  std::uint32_t at[4];
};

enum Op : int { sum, maximum, minimum, product, bit_and, bit_or, bit_xor, logical_and, logical_or, logical_xor };
constexpr Op max_location{10}, min_location{11}, modular_sum{12}, matrix_product{13}, moved{14};
constexpr int modulus = 10007;

// Values are such that all MPIs give the same results. Sums of up to 31 ranks are neither rounded nor too large for
// their type, since Open MPI 4.1.4 does not compute all of them modulo a power of two. MPI_MAX and MPI_MIN get no value
// whose first bit is set in an unsigned type, since MPICH 4.0.2 (its issue 6083) and, for unsigned long, Open MPI 4.1.4
// (its issue 10525) take that for a sign.
template <typename T>
T value_of(Op op, Word hash) {
  if constexpr (std::is_same_v<T, Matrix>) {
    const auto low = static_cast<std::uint32_t>(hash), high = static_cast<std::uint32_t>(hash >> 32);
    return {{low, high, low ^ high >> 16, low * high}};
  } else if constexpr (requires(T pair) { pair.index; }) {
    T pair{};
    pair.value = static_cast<int>(hash % 5);
    pair.index = static_cast<int>(hash >> 8 & 127);
    return pair;
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(static_cast<std::int64_t>(hash) >> 48);
  } else {
    using Signed64 = std::conditional_t<std::is_signed_v<T>, std::int64_t, Word>;
    if (op == sum) return static_cast<T>(static_cast<Signed64>(hash) >> (69 - 8 * sizeof(T)));
    if (op == product) return hash % 8 == 0 ? 2 : 1;
    if (op == modular_sum) return static_cast<T>(hash % modulus);
    if (op >= logical_and && op <= logical_xor && hash % 2 == 0) return 0;
    if (op == maximum || op == minimum) hash = static_cast<T>(hash) >> std::is_unsigned_v<T>;
    return static_cast<T>(hash);
  }
}

template <typename T>
T combine_integers(Op op, T a, T b) {
  if (op == product) return static_cast<T>(a * b);
  if (op == bit_and) return static_cast<T>(a & b);
  if (op == bit_or) return static_cast<T>(a | b);
  if (op == bit_xor) return static_cast<T>(a ^ b);
  if (op == logical_and) return a != 0 && b != 0;
  if (op == logical_or) return a != 0 || b != 0;
  if (op == logical_xor) return (a != 0) != (b != 0);
  return static_cast<T>((static_cast<int>(a) + static_cast<int>(b)) % modulus);
}

template <typename T>
T combine(Op op, const T& a, const T& b) {
  if constexpr (std::is_same_v<T, Matrix>) {
    const auto *x = a.at, *y = b.at;
    return {
        {x[0] * y[0] + x[1] * y[2], x[0] * y[1] + x[1] * y[3], x[2] * y[0] + x[3] * y[2], x[2] * y[1] + x[3] * y[3]}};
  } else if constexpr (requires { a.index; }) {
    if (a.value != b.value) return (a.value < b.value) == (op == min_location) ? a : b;
    return a.index < b.index ? a : b;
  } else {
    if (op == sum) return static_cast<T>(a + b);
    if (op == maximum || op == minimum) return (a < b) == (op == minimum) ? a : b;
    if constexpr (std::is_integral_v<T>) return combine_integers(op, a, b);
    return a;
  }
}

void add_modulo(void* in, void* inout, int* count, MPI_Datatype*) {
  auto *left = static_cast<int*>(in), *right = static_cast<int*>(inout);
  for (int i = 0; i < *count; ++i) right[i] = combine(modular_sum, left[i], right[i]);
}
void multiply_matrices(void* in, void* inout, int* count, MPI_Datatype* type) {
  MPI_Aint lb = 0, extent = 0;
  MPI_Type_get_extent(*type, &lb, &extent);
  for (MPI_Aint at = 0; at < *count * extent; at += extent) {
    auto *left = reinterpret_cast<Matrix*>(static_cast<Byte*>(in) + at),
         *right = reinterpret_cast<Matrix*>(static_cast<Byte*>(inout) + at);
    *right = combine(matrix_product, *left, *right);
  }
}

// A datatype, and where the elements of an item of it are.
struct Layout {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  std::vector<std::size_t> offsets;
  std::size_t extent = 0, tail = 0;  // how far the last item reaches beyond its extent
};

// Writes elements from number `first` on: those of the rank whose key is given, or of several ranks, combined in order.
template <typename T>
void write_elements(Byte* at, const Layout& layout, std::size_t items, Op op, Word first,
                    const std::vector<Word>& keys) {
  for (; items > 0; --items, at += layout.extent)
    for (std::size_t offset : layout.offsets) {
      T element = value_of<T>(op, mix(keys[0], first));
      for (std::size_t i = 1; i < keys.size(); ++i)
        element = combine(op, element, value_of<T>(op, mix(keys[i], first)));
      std::memcpy(at + offset, &element, sizeof element);
      ++first;
    }
}

struct Kind {
  MPI_Datatype type;
  std::size_t size;
  decltype(&write_elements<int>) write;
};
Kind kinds[17];
constexpr int bytes = 1, first_integer = 2, ints = 6, last_integer = 11, doubles = 13, int_pairs = 14,
              double_pairs = 15, matrices = 16, movable = 15;

struct Reduction {
  const char* name;
  MPI_Op op;
  int first_kind, last_kind;
};
Reduction reductions[14];  // in the order of Op

void create_kinds() {
  MPI_Datatype matrix;
  MPI_Type_contiguous(4, MPI_UNSIGNED, &matrix);
  MPI_Type_commit(&matrix);
  const Kind all[] = {{MPI_CHAR, sizeof(char), write_elements<char>},
                      {MPI_BYTE, sizeof(Byte), write_elements<Byte>},
                      {MPI_SIGNED_CHAR, sizeof(signed char), write_elements<signed char>},
                      {MPI_UNSIGNED_CHAR, sizeof(unsigned char), write_elements<unsigned char>},
                      {MPI_SHORT, sizeof(short), write_elements<short>},
                      {MPI_UNSIGNED_SHORT, sizeof(unsigned short), write_elements<unsigned short>},
                      {MPI_INT, sizeof(int), write_elements<int>},
                      {MPI_UNSIGNED, sizeof(unsigned), write_elements<unsigned>},
                      {MPI_LONG, sizeof(long), write_elements<long>},
                      {MPI_UNSIGNED_LONG, sizeof(unsigned long), write_elements<unsigned long>},
                      {MPI_INT64_T, sizeof(std::int64_t), write_elements<std::int64_t>},
                      {MPI_UINT64_T, sizeof(std::uint64_t), write_elements<std::uint64_t>},
                      {MPI_FLOAT, sizeof(float), write_elements<float>},
                      {MPI_DOUBLE, sizeof(double), write_elements<double>},
                      {MPI_2INT, sizeof(IntPair), write_elements<IntPair>},
                      {MPI_DOUBLE_INT, sizeof(DoublePair), write_elements<DoublePair>},
                      {matrix, sizeof(Matrix), write_elements<Matrix>}};
  std::copy(std::begin(all), std::end(all), kinds);
}

void create_reductions() {
  MPI_Op user_sum, user_product;
  MPI_Op_create(add_modulo, 1, &user_sum);
  MPI_Op_create(multiply_matrices, 0, &user_product);
  const Reduction all[] = {
      {"MPI_SUM", MPI_SUM, first_integer, doubles},        {"MPI_MAX", MPI_MAX, first_integer, doubles},
      {"MPI_MIN", MPI_MIN, first_integer, doubles},        {"MPI_PROD", MPI_PROD, first_integer, last_integer},
      {"MPI_BAND", MPI_BAND, bytes, last_integer},         {"MPI_BOR", MPI_BOR, bytes, last_integer},
      {"MPI_BXOR", MPI_BXOR, bytes, last_integer},         {"MPI_LAND", MPI_LAND, first_integer, last_integer},
      {"MPI_LOR", MPI_LOR, first_integer, last_integer},   {"MPI_LXOR", MPI_LXOR, first_integer, last_integer},
      {"MPI_MAXLOC", MPI_MAXLOC, int_pairs, double_pairs}, {"MPI_MINLOC", MPI_MINLOC, int_pairs, double_pairs},
      {"a commutative sum", user_sum, ints, ints},         {"a product in order", user_product, matrices, matrices}};
  std::copy(std::begin(all), std::end(all), reductions);
}

// Prints the call in one piece, since other ranks may fail, too.
void fail(const std::string& what) {
  char type[MPI_MAX_OBJECT_NAME] = "a matrix";
  int length = 0;
  if (call.kind != matrices) MPI_Type_get_name(kinds[call.kind].type, type, &length);
  std::string more = call.reduction < 0 ? "" : std::string(", ") + reductions[call.reduction].name;
  if (call.is_derived) more += ", with gaps";
  if (call.is_in_place) more += ", in place";
  if (call.has_message) more += ", during a message";
  if (call.has_iallreduce) more += ", during MPI_Iallreduce";
  if (call.has_ibarrier) more += ", during MPI_Ibarrier";
  std::printf("rank %d, thread %d, step %ld: %s\n  MPI_%s on %s (rank %d of %d), root %d, count %zu, %s%s\n", own,
              call.thread, call.step, what.c_str(), names[call.operation], call.on.name, call.on.rank, call.on.size,
              call.root, call.count, type, more.c_str());
  std::fflush(stdout);
  MPI_Abort(MPI_COMM_WORLD, 3);
  std::abort();
}

// Memory for one side of a call, and a copy that holds what must be in it.
class Buffer {
 public:
  void use(Byte* on_stack, Byte* in_static) { fixed_[0] = on_stack, fixed_[1] = in_static; }

  void open(Word draw, std::size_t size, std::size_t alignment) {
    begin_ = 64 + (draw >> 8) % 1024 / alignment * alignment;
    size_ = size;
    expected_.assign(begin_ + size + 64, static_cast<Byte>(draw >> 24));
    region_ = draw % 4;
    if (region_ > 1 && expected_.size() > fixed_bytes) region_ -= 2;
    if (region_ == 0) memory_ = static_cast<Byte*>(std::malloc(expected_.size()));
    if (region_ > 1) memory_ = fixed_[region_ - 2];
    if (region_ != 1) return;
    void* at = mmap(nullptr, expected_.size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(at != MAP_FAILED, "mmap");
    memory_ = static_cast<Byte*>(at);
  }

  bool is_open() const { return memory_ != nullptr; }
  void* data() const { return is_open() && (size_ > 0 || region_ > 0) ? memory_ + begin_ : nullptr; }
  Byte* expected(std::size_t at) { return expected_.data() + begin_ + at; }
  void publish() const {
    if (is_open()) std::memcpy(memory_, expected_.data(), expected_.size());
  }
  void forget(std::size_t at, std::size_t size) {
    if (size > 0) std::memcpy(memory_ + begin_ + at, expected(at), size);
  }

  // Returns the digest of what was in the memory.
  Word close(const char* what) {
    if (!is_open()) return 0;
    if (std::memcmp(memory_, expected_.data(), expected_.size()) != 0) fail_at_difference(what);
    Word digest = size_, word = 0;
    for (std::size_t at = 0; at < size_; at += sizeof word) {
      std::memcpy(&word, memory_ + begin_ + at, std::min(sizeof word, size_ - at));
      digest = (digest ^ word) * 1099511628211u;
    }
    if (region_ == 0) std::free(memory_);
    if (region_ == 1) munmap(memory_, expected_.size());
    memory_ = nullptr;
    return digest;
  }

 private:
  [[noreturn]] void fail_at_difference(const char* what) const {
    const auto at = std::mismatch(expected_.begin(), expected_.end(), memory_).second - memory_;
    fail(std::string(what) + " at byte " + std::to_string(at - static_cast<std::ptrdiff_t>(begin_)) + " of " +
         std::to_string(size_) + " bytes in memory of kind " + std::to_string(region_));
  }

  Byte *memory_ = nullptr, *fixed_[2] = {};
  std::size_t begin_ = 0, size_ = 0, region_ = 0;
  std::vector<Byte> expected_;
};

// A part of the data that a rank sends to a peer or receives from it.
struct Part {
  int peer = 0, kind = 0;
  const Layout* layout = nullptr;
  std::size_t items = 0, at = 0;
};
struct Side {
  Buffer buffer;
  std::vector<Part> parts;
  std::vector<int> counts, displacements;
  std::vector<MPI_Datatype> types;

  int count() const { return counts.empty() ? 0 : counts[0]; }
  MPI_Datatype type() const {  // MPI_Bcast has no argument that may be null
    return !types.empty() ? types[0] : call.operation == bcast ? MPI_BYTE : MPI_DATATYPE_NULL;
  }
  void resize(std::size_t size) {
    parts.resize(size);
    counts.resize(size);
    displacements.resize(size);
    types.resize(size);
  }
  void set(std::size_t i, const Part& part, std::size_t unit) {
    parts[i] = part;
    counts[i] = static_cast<int>(part.items);
    displacements[i] = static_cast<int>(part.at / unit);
    types[i] = part.layout->type;
  }
  void write(const Part& part, Word key) {
    kinds[part.kind].write(buffer.expected(part.at), *part.layout, part.items, moved, 0, {key});
  }
};

enum Form : int { plain, contiguous, vector, decreasing, resized, interleaved, forms };

// Returns a type that is not committed yet, and where its elements are. Its gaps depend on the hash.
Layout describe_form(const Kind& kind, int elements, int form, Word hash) {
  const int gap = static_cast<int>(hash % 3), size = static_cast<int>(kind.size);
  std::vector<int> lengths{elements}, offsets{0};
  if (form == vector) lengths = {2, 2, 2}, offsets = {0, 2 + gap, 4 + 2 * gap};
  if (form == decreasing) lengths = {2, 1, 3}, offsets = {6 + gap, 4, 0};
  if (form == interleaved) lengths = {3, 3}, offsets = {0, 9};
  Layout layout;
  const int blocks = static_cast<int>(lengths.size());
  if (form == vector) MPI_Type_vector(blocks, 2, 2 + gap, kind.type, &layout.type);
  if (form == contiguous || form == resized) MPI_Type_contiguous(elements, kind.type, &layout.type);
  if (form == decreasing || form == interleaved)
    MPI_Type_indexed(blocks, lengths.data(), offsets.data(), kind.type, &layout.type);
  for (std::size_t i = 0; i < lengths.size(); ++i)
    for (int j = offsets[i]; j < offsets[i] + lengths[i]; ++j)
      layout.offsets.push_back(static_cast<std::size_t>(j * size));
  if (form >= resized) {
    MPI_Datatype inner = layout.type;
    MPI_Type_create_resized(inner, form == resized ? -size : 0,
                            (form == resized ? item_elements + gap : item_elements) * size, &layout.type);
    MPI_Type_free(&inner);
  }
  return layout;
}

Layout create_layout(int kind_number, int form, Word hash) {
  const Kind& kind = kinds[kind_number];
  if (form == plain) return {kind.type, {0}, kind.size, 0};
  Layout layout = describe_form(kind, kind_number == matrices ? 1 : item_elements, form, hash);
  MPI_Type_commit(&layout.type);
  MPI_Aint lb = 0, extent = 0;
  MPI_Type_get_extent(layout.type, &lb, &extent);
  layout.extent = static_cast<std::size_t>(extent);
  const std::size_t end = *std::max_element(layout.offsets.begin(), layout.offsets.end()) + kind.size;
  layout.tail = end > layout.extent ? end - layout.extent : 0;
  return layout;
}

// Other communication on the communicator of a call, which begins before the call and ends after it.
class Traffic {
 public:
  void begin() {
    if (call.has_message) pass_message();
    if (call.has_iallreduce) begin_sums();
    if (call.has_ibarrier) MPI_Ibarrier(call.on.comm, &requests_.emplace_back());
  }

  void end() {
    MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE);
    requests_.clear();
    if (!call.has_iallreduce) return;
    int all = call.on.size, expected = all * (all - 1) / 2 * 3;
    for (int found : sums_) {
      check(found == expected, "MPI_Iallreduce gave another sum");
      expected += all;
    }
  }

 private:
  // The receiver waits for the message before it makes the call, so that the sender must pass it on within the call.
  void pass_message() {
    const Word hash = mix(call.key, 5), all = static_cast<Word>(call.on.size);
    const int from = static_cast<int>(hash % all), to = static_cast<int>((hash + 1 + (hash >> 20) % (all - 1)) % all);
    if (call.on.rank != from && call.on.rank != to) return;
    std::vector<Word> message(8192 + (hash >> 40) % 24576);
    const int size = static_cast<int>(message.size());
    for (std::size_t i = 0; i < message.size(); ++i) message[i] = mix(hash, i);
    if (call.on.rank == from) {
      sent_ = std::move(message);
      MPI_Isend(sent_.data(), size, MPI_UINT64_T, to, 1, call.on.comm, &requests_.emplace_back());
    } else {
      std::vector<Word> received(message.size());
      MPI_Recv(received.data(), size, MPI_UINT64_T, from, 1, call.on.comm, MPI_STATUS_IGNORE);
      check(received == message, "another message came than was sent");
    }
  }

  void begin_sums() {
    addends_.resize(1 + call.key % 2048);
    sums_.assign(addends_.size(), -1);
    for (std::size_t i = 0; i < addends_.size(); ++i) addends_[i] = call.on.rank * 3 + static_cast<int>(i);
    MPI_Iallreduce(addends_.data(), sums_.data(), static_cast<int>(sums_.size()), MPI_INT, MPI_SUM, call.on.comm,
                   &requests_.emplace_back());
  }

  std::vector<MPI_Request> requests_;
  std::vector<Word> sent_;
  std::vector<int> addends_, sums_;
};

}  // namespace

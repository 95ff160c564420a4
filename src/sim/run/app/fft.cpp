// FFT of the HPC Challenge, as in paper S4 (papers/S4/README.md), section 3: one transform of a vector of complex
// numbers, distributed in equal parts over ranks, by FFTE's three-dimensional decomposition as in HPCC's pzfft1d.c
// (version 1.0 to 1.5): n = nx * ny * nz, three MPI_Alltoall, and between them loops that gather 16 columns at a time,
// transform them and scatter them back.
// The accesses are those of FFTE's loops over its arrays, in words of 8 bytes; the real parts of up to 16 numbers come
// before their imaginary parts. Inside a column a pass loads all numbers and stores them in order, not in the order of
// FFTE's butterflies, since a column fits into the L1. The amount of arithmetic is that of FFTE's kernel.f, with a
// multiply-add as one instruction. Not modeled: arithmetic for the roots of unity inside a pass, numbers of ranks and
// points that are not powers of two.
#include <bit>
#include <stdexcept>

#include "machine/machine.hpp"
#include "sim/mpi/collectives/on_rank.hpp"
#include "sim/run/app/access_batch.hpp"
#include "sim/run/app/application.hpp"
#include "sim/run/app/heap.hpp"

namespace nearfield::sim {
namespace {

constexpr std::uint64_t complex_bytes = 16;  // bytes of a complex number
constexpr std::uint64_t word_bytes = 8;
constexpr double product_flops = 2;              // of a product of two complex numbers, per word of the result
constexpr std::uint64_t columns_per_block = 16;  // FFTE_NBLK: columns at a time
constexpr std::uint64_t column_padding = 8;      // FFTE_NP: numbers between columns
constexpr int tag = 1 << 20;

struct FftDimensions {
  std::uint64_t nx, ny, nz, ranks;
  std::uint64_t local_nx() const { return nx / ranks; }
  std::uint64_t local_nz() const { return nz / ranks; }
  std::uint64_t points_per_rank() const { return nx * ny * local_nz(); }  // per rank
};

// Chooses nx, ny and nz as HPCC_pzfft1d does: each dimension has about a third of the exponent, x and z at least the
// number of ranks.
FftDimensions choose_dimensions(int ranks, std::uint64_t points) {
  const auto num_columns = static_cast<std::uint64_t>(ranks);
  if (!std::has_single_bit(num_columns) || !std::has_single_bit(points) || points < num_columns)
    throw std::invalid_argument("fft: " + std::to_string(points) + " points on each of " + std::to_string(ranks) +
                                " ranks; powers of two, and a point for every rank at least, would work");
  const int of_ranks = std::countr_zero(num_columns), all = of_ranks + std::countr_zero(points);
  const int z = std::max(of_ranks, (all + 1) / 3), x = std::max(of_ranks, (all - z + 1) / 2);
  return {std::uint64_t{1} << x, std::uint64_t{1} << (all - x - z), std::uint64_t{1} << z, num_columns};
}

// Returns the radices of the passes over a column, as HPCC_fft235 chooses them: 8, and 4 for the remainder.
std::vector<std::uint64_t> radices_of_passes(std::uint64_t length) {
  const int exponent = std::countr_zero(length);
  if (exponent < 2) return std::vector<std::uint64_t>(static_cast<std::size_t>(exponent), 2);
  const int fours = 2 - (exponent + 2) % 3;
  std::vector<std::uint64_t> list(static_cast<std::size_t>(fours), 4);
  list.insert(list.end(), static_cast<std::size_t>((exponent - 2 * fours) / 3), 8);
  return list;
}

// The addresses of the complex numbers that a nest of two loops accesses.
struct ArrayView {
  Address begin;
  std::uint64_t inner, outer;  // strides, in numbers
};

// Returns the floating-point instructions of a pass per word of its result (FFTE's kernel.f).
double butterfly_flops(std::uint64_t radix) {
  if (radix == 8) return 5;
  return radix == 4 ? 3.5 : 1;
}

// Adds accesses to `count` complex numbers at a stride. `flops`: floating-point instructions per word, which overlap
// with two accesses to the word.
void add_accesses(AccessBatch& batch, Access kind, Address begin, std::uint64_t count, std::uint64_t stride,
                  double flops = 0) {
  const auto step = static_cast<std::int64_t>(stride * complex_bytes);
  const auto both = [&](auto&& access) {
    if (stride == 1) return access(begin, 2 * count, static_cast<std::int64_t>(word_bytes));
    access(begin, count, step);
    access(begin + word_bytes, count, step);
  };
  both([&](Address at, std::uint64_t times, std::int64_t stride_bytes) {
    if (kind == Access::store)
      batch.add_store(at, times, stride_bytes, word_bytes);
    else
      batch.add_load(at, times, stride_bytes, word_bytes);
    batch.add_independent_flops(flops, 2);
  });
}

// The addresses of FFTE's arrays.
struct FftArrays {
  Address a, b;                       // the vector, and work space of the same size
  Address columns, work_column;       // c and d: a block of columns, and the result of a pass over one of them
  Address x_roots, y_roots, z_roots;  // wx, wy and wz: roots of unity for the transforms along x, y and z
  Address y_twiddles, x_twiddles;     // ww and www: twiddle factors, applied before the transforms along y and x
};

class RankTransform {
 public:
  RankTransform(Rank& rank, Communicator& comm, const FftArrays& at, const FftDimensions& n)
      : comm_(comm), rank_(rank), batch_(rank), arrays_(at), dimensions_(n) {}

  Task<> run() {
    const std::uint64_t block = dimensions_.points_per_rank() / dimensions_.ranks;
    co_await transpose(arrays_.b, arrays_.a, dimensions_.ranks, block);
    co_await alltoall(arrays_.b, arrays_.a);
    co_await transform_along_z();
    co_await alltoall(arrays_.a, arrays_.b);
    co_await transform_along_y_and_x();
    co_await reorder_dimensions();
    co_await alltoall(arrays_.b, arrays_.a);
    co_await transpose(arrays_.b, arrays_.a, block, dimensions_.ranks);
    co_await rank_.copy(arrays_.a, arrays_.b, dimensions_.points_per_rank() * complex_bytes);
  }

 private:
  Task<> alltoall(Address from, Address to) {
    return alltoall_collective.run(comm_,
                                   {from, to, dimensions_.points_per_rank() / dimensions_.ranks * complex_bytes, 0});
  }

  // to[outer][inner] = from[outer][inner], multiplied by a factor if there is one.
  Task<> copy_numbers(ArrayView to, ArrayView from, std::uint64_t inner, std::uint64_t outer, ArrayView factor = {}) {
    for (std::uint64_t o = 0; o < outer; ++o) {
      add_accesses(batch_, Access::load, from.begin + o * from.outer * complex_bytes, inner, from.inner);
      if (factor.begin)
        add_accesses(batch_, Access::load, factor.begin + o * factor.outer * complex_bytes, inner, factor.inner);
      add_accesses(batch_, Access::store, to.begin + o * to.outer * complex_bytes, inner, to.inner,
                   factor.begin ? product_flops : 0);
      if (batch_.is_full()) co_await batch_.flush();
    }
  }

  // Transforms one column; passes alternate between two buffers.
  Task<> transform_column(Address begin, std::uint64_t length, Address roots) {
    Address from = begin, to = arrays_.work_column;
    std::uint64_t remaining_length = length;
    for (const auto radix : radices_of_passes(length)) {
      remaining_length /= radix;
      add_accesses(batch_, Access::load, roots, remaining_length, 1);
      add_accesses(batch_, Access::load, from, length, 1);
      add_accesses(batch_, Access::store, to, length, 1, butterfly_flops(radix));
      std::swap(from, to);
    }
    if (batch_.is_full()) co_await batch_.flush();
  }

  // ztrans: b[i][j] = a[j][i], in tiles. `n1` is a's fast dimension.
  Task<> transpose(Address b, Address a, std::uint64_t n1, std::uint64_t n2) {
    for (std::uint64_t ii = 0; ii < n1; ii += columns_per_block)
      for (std::uint64_t jj = 0; jj < n2; jj += columns_per_block)
        co_await copy_numbers({b + (jj + ii * n2) * complex_bytes, 1, n2}, {a + (ii + jj * n1) * complex_bytes, n1, 1},
                              std::min(columns_per_block, n2 - jj), std::min(columns_per_block, n1 - ii));
    co_await batch_.flush();
  }

  // Gathers and transforms columns along z, and stores them so that each rank's part is contiguous.
  Task<> transform_along_z() {
    const std::uint64_t nnx = dimensions_.local_nx(), nnz = dimensions_.local_nz(), ny = dimensions_.ny,
                        nz = dimensions_.nz, pitch = nz + column_padding;
    for (std::uint64_t j = 0; j < ny; ++j)
      for (std::uint64_t ii = 0; ii < nnx; ii += columns_per_block) {
        const std::uint64_t num_columns = std::min(columns_per_block, nnx - ii);
        for (std::uint64_t kk = 0; kk < nz; kk += columns_per_block)
          co_await copy_numbers({arrays_.columns + kk * complex_bytes, 1, pitch},
                                {arrays_.a + (ii + nnx * (j + ny * kk)) * complex_bytes, nnx * ny, 1},
                                std::min(columns_per_block, nz - kk), num_columns);
        for (std::uint64_t i = 0; i < num_columns; ++i)
          co_await transform_column(arrays_.columns + i * pitch * complex_bytes, nz, arrays_.z_roots);
        for (std::uint64_t l = 0; l < dimensions_.ranks; ++l)
          co_await copy_numbers({arrays_.a + (ii + nnx * (j + ny * nnz * l)) * complex_bytes, 1, nnx * ny},
                                {arrays_.columns + l * complex_bytes, pitch, dimensions_.ranks}, num_columns, nnz);
      }
    co_await batch_.flush();
  }

  Task<> transform_along_y_and_x() {
    for (std::uint64_t k = 0; k < dimensions_.local_nz(); ++k) {
      for (std::uint64_t l = 0; l < dimensions_.ranks; ++l)
        for (std::uint64_t ii = 0; ii < dimensions_.local_nx(); ii += columns_per_block)
          co_await transform_along_y(k, l, ii);
      for (std::uint64_t j = 0; j < dimensions_.ny; ++j)
        co_await transform_column(arrays_.a + dimensions_.nx * (j + dimensions_.ny * k) * complex_bytes, dimensions_.nx,
                                  arrays_.x_roots);
    }
    co_await batch_.flush();
  }

  Task<> transform_along_y(std::uint64_t k, std::uint64_t l, std::uint64_t ii) {
    const std::uint64_t nnx = dimensions_.local_nx(), ny = dimensions_.ny, pitch = ny + column_padding,
                        num_columns = std::min(columns_per_block, nnx - ii);
    for (std::uint64_t jj = 0; jj < ny; jj += columns_per_block)
      co_await copy_numbers(
          {arrays_.columns + jj * complex_bytes, 1, pitch},
          {arrays_.b + (ii + nnx * (jj + ny * (k + dimensions_.local_nz() * l))) * complex_bytes, nnx, 1},
          std::min(columns_per_block, ny - jj), num_columns,
          {arrays_.y_twiddles + (jj + ny * k) * complex_bytes, 1, 0});
    for (std::uint64_t i = 0; i < num_columns; ++i)
      co_await transform_column(arrays_.columns + i * pitch * complex_bytes, ny, arrays_.y_roots);
    const std::uint64_t place = (l + dimensions_.ranks * (ii + nnx * ny * k)) * complex_bytes;
    co_await copy_numbers({arrays_.a + place, dimensions_.ranks, dimensions_.nx}, {arrays_.columns, pitch, 1},
                          num_columns, ny, {arrays_.x_twiddles + place, dimensions_.ranks, dimensions_.nx});
  }

  // b[i][j][k] = a[k][j][i], in tiles.
  Task<> reorder_dimensions() {
    const std::uint64_t nx = dimensions_.nx, ny = dimensions_.ny, nnz = dimensions_.local_nz();
    for (std::uint64_t ii = 0; ii < nx; ii += columns_per_block)
      for (std::uint64_t jj = 0; jj < ny; jj += columns_per_block)
        for (std::uint64_t kk = 0; kk < nnz; kk += columns_per_block)
          for (std::uint64_t i = ii; i < std::min(ii + columns_per_block, nx); ++i)
            co_await copy_numbers({arrays_.b + (kk + nnz * (jj + ny * i)) * complex_bytes, 1, nnz},
                                  {arrays_.a + (i + nx * (jj + ny * kk)) * complex_bytes, nx * ny, nx},
                                  std::min(columns_per_block, nnz - kk), std::min(columns_per_block, ny - jj));
    co_await batch_.flush();
  }

  Communicator& comm_;
  Rank& rank_;
  AccessBatch batch_;
  FftArrays arrays_;
  FftDimensions dimensions_;
};

class Fft final : public Workload {
 public:
  Fft(int ranks, const FftDimensions& n) : dimensions_(n), parts_(static_cast<std::size_t>(ranks)) {}

  // Fills the vector and computes the twiddle factors, as HPCC does before its timed section.
  Task<> set_up(Rank& rank) override {
    RankPart& part = part_of_rank(rank);
    const std::uint64_t vector = dimensions_.points_per_rank() * complex_bytes,
                        longest = std::max({dimensions_.nx, dimensions_.ny, dimensions_.nz}) + column_padding;
    part.comm = std::make_unique<RankCommunicator>(rank, tag);
    RankHeap heap(rank);
    FftArrays& at = part.arrays;
    at.b = heap.allocate(vector);
    for (Address* block : {&at.columns, &at.work_column})
      *block = heap.allocate(longest * columns_per_block * complex_bytes);
    for (Address* roots : {&at.x_roots, &at.y_roots, &at.z_roots})
      co_await heap.allocate(*roots, longest * complex_bytes);
    co_await heap.allocate(at.y_twiddles, dimensions_.ny * dimensions_.local_nz() * complex_bytes);
    co_await heap.allocate(at.x_twiddles, vector);
    co_await heap.allocate(at.a, vector);
    part.transform = std::make_unique<RankTransform>(rank, *part.comm, at, dimensions_);
  }

  Task<> run(Rank& rank) override { return part_of_rank(rank).transform->run(); }

 private:
  struct RankPart {
    std::unique_ptr<RankCommunicator> comm;
    FftArrays arrays;
    std::unique_ptr<RankTransform> transform;
  };
  RankPart& part_of_rank(const Rank& rank) { return parts_[static_cast<std::size_t>(rank.rank())]; }

  FftDimensions dimensions_;
  std::vector<RankPart> parts_;
};

std::unique_ptr<Workload> make_fft(int ranks, std::uint64_t bytes) {
  return std::make_unique<Fft>(ranks, choose_dimensions(ranks, bytes / complex_bytes));
}

}  // namespace

// The default sizes are the small and the large problem of paper S4: 4,096 and 262,144 points per rank.
extern const ApplicationSpec fft_application;
const ApplicationSpec fft_application{"fft",
                                      "HPC Challenge's FFT: one transform of a vector over all ranks",
                                      "one rank's part of the vector, 16 bytes a point",
                                      {65536, 4194304},
                                      make_fft};

}  // namespace nearfield::sim

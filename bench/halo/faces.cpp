// A three-dimensional halo of two ranks by every way: each writes the planes that the other reads, exchanges, reads
// what arrived. faces ROUNDS WIDTH PERIODIC CELLS_PER_SIDE... Also the floor: the same with raw shared memory and a
// flag, and the time of a flag alone.
#include <atomic>

#include "common.hpp"

namespace {

using nearfield::Field;
using nearfield::Grid;
using nearfield::View;

double sink = 0;
int rank = 0;

void write_planes(const View<double, 3>& u, std::int64_t from, std::int64_t to, double value) {
  for (auto i = from; i < to; ++i)
    for (std::int64_t j = 0; j < u.extent(1); ++j) {
      double* row = u.row(i, j);
      NEARFIELD_VECTORISE
      for (std::int64_t k = 0; k < u.extent(2); ++k) row[k] = value;
    }
}

double read_planes(const View<double, 3>& u, std::int64_t from, std::int64_t to) {
  double sum = 0;
  for (auto i = from; i < to; ++i)
    for (std::int64_t j = 0; j < u.extent(1); ++j) {
      const double* row = u.row(i, j);
      for (std::int64_t k = 0; k < u.extent(2); ++k) sum += row[k];
    }
  return sum;
}

// Two fields in turns, as a Jacobi sweep has them.
struct Halo {
  Halo(const std::string& protocol, std::int64_t cells, int width, bool periodic)
      : width(width),
        grid(MPI_COMM_WORLD, {.extents = {2 * cells, cells, cells},
                              .halo = width,
                              .periodic = periodic,
                              .dims = {2, 1, 1},
                              .protocol = protocol}),
        fields{grid.field<double>(), grid.field<double>()} {
    for (auto& field : fields) views.push_back(field.view());
    grid.exchange(fields[0]);
    grid.exchange(fields[1]);
  }

  void step() {
    const auto& u = views[turn];
    const auto planes = u.extent(0);
    const auto mine = rank == 0 ? planes - width : 0, theirs = rank == 0 ? planes : -width;
    write_planes(u, mine, mine + width, ++value);
    grid.exchange(fields[turn]);
    sink += read_planes(u, theirs, theirs + width);
    turn = 1 - turn;
  }

  int width;
  Grid<3> grid;
  Field<double, 3> fields[2];
  std::vector<View<double, 3>> views;
  double value = 0;
  int turn = 0;
};

// Does the same on memory of this process; with another rank's planes and a flag it is the least that can be done.
struct Raw {
  Raw(const Halo& like, Grid<1>& shared_by, bool alone) : width(like.width), alone(alone), grid(shared_by) {
    const auto& view = like.views[0];
    bytes = static_cast<std::size_t>(view.strides()[0] * width) * 8 + 4096;
    for (int i = 0; i < 2; ++i) {
      own.push_back(std::make_unique<bench::Private>(2 * bytes));
      std::byte *mine = own.back()->data() + i * 320, *theirs = mine + bytes;
      if (!alone) {
        fields.push_back(shared_by.field<double>());
        auto* base = fields.back().data();
        const auto half = shared_by.count(0);  // one-dimensional: each rank's half of the memory
        mine = reinterpret_cast<std::byte*>(base);
        theirs = reinterpret_cast<std::byte*>(rank == 0 ? base + half : base - half);
      }
      writes.push_back(planes_at(mine, view));
      reads.push_back(planes_at(theirs, view));
    }
    if (!alone) {
      flag_field = shared_by.field<double>();
      flags[0] = reinterpret_cast<std::atomic<std::uint64_t>*>(flag_field.data());
      const auto half = shared_by.count(0);
      auto* other = rank == 0 ? flag_field.data() + half : flag_field.data() - half;
      flags[1] = reinterpret_cast<std::atomic<std::uint64_t>*>(other);
      flags[0]->store(0);
      MPI_Barrier(MPI_COMM_WORLD);
    }
  }

  View<double, 3> planes_at(std::byte* at, const View<double, 3>& like) {
    return {reinterpret_cast<double*>(at),
            like.strides(),
            {width, like.extent(1), like.extent(2)},
            std::array<std::array<int, 2>, 3>{},
            &never};
  }

  void step() {
    write_planes(writes[turn], 0, width, ++value);
    if (!alone) flag();
    sink += read_planes(reads[turn], 0, width);
    turn = 1 - turn;
  }

  void flag() {
    flags[0]->store(++count, std::memory_order_release);
    while (flags[1]->load(std::memory_order_acquire) < count) __builtin_ia32_pause();
  }

  int width;
  bool alone;
  Grid<1>& grid;
  std::size_t bytes = 0;
  std::vector<std::unique_ptr<bench::Private>> own;
  std::vector<Field<double, 1>> fields;
  Field<double, 1> flag_field;
  std::vector<View<double, 3>> writes, reads;
  std::atomic<std::uint64_t>* flags[2] = {};
  std::uint64_t count = 0;
  double value = 0;
  int turn = 0;
  bool never = false;
};

}  // namespace

int main(int argc, char** argv) {
  bench::begin(argc, argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const int rounds = std::atoi(argv[1]), width = std::atoi(argv[2]);
  const bool periodic = std::atoi(argv[3]);
  for (int a = 4; a < argc; ++a) {
    const auto cells = std::atoll(argv[a]);
    std::vector<std::unique_ptr<Halo>> halos;
    std::vector<bench::Way> ways;
    for (const char* protocol :
         {"in-place", "window", "direct", "staged", "single-copy", "sendrecv", "persistent", "neighborhood"}) {
      halos.push_back(std::make_unique<Halo>(protocol, cells, width, periodic));
      ways.push_back({protocol, [halo = halos.back().get()] { halo->step(); }});
    }
    const auto room = halos[0]->views[0].strides()[0] * width + 512;
    Grid<1> line(MPI_COMM_WORLD, {.extents = {2 * room}, .halo = 0});
    Raw alone(*halos[0], line, true), floor(*halos[0], line, false);
    ways.push_back({"alone", [&] { alone.step(); }});
    ways.push_back({"floor", [&] { floor.step(); }});
    ways.push_back({"flag", [&] { floor.flag(); }});
    const auto times = bench::in_turns(ways, rounds, 1e-3);
    bench::report("faces",
                  {{"width", width},
                   {"periodic", periodic},
                   {"cells", static_cast<double>(cells)},
                   {"face_bytes", static_cast<double>(cells * cells * width * 8)}},
                  ways, times);
  }
  if (sink == 0.123) std::puts("");
  MPI_Finalize();
}

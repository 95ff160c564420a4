// Wrong uses of the C++ interface, none of which may compile: one on each line that ends in a comment, which says what
// the compiler's error must hold (without quotes and namespaces). Everything else here is right.
#include <string>

#include "nearfield/halo.hpp"

// clang-format off
template <class T> void take(const T&) {}

void dimensions(nearfield::Grid<2>& grid, const nearfield::Field<double, 2>& field, const nearfield::Field<double, 3>& other) {
  const auto view = field.view();
  take(view(1, 2) + *view.row(1) + view.own(1)[0]);
  const nearfield::View<double, 3> three = field.view();  // error: to non-scalar type View<double, 3>
  take(view(1, 2, 3));  // error: a cell of a view has one index per dimension
  take(view.row(1, 2));  // error: a row of a view has one index less
  take(view(1.5, 2));  // error: no match for call to (const View<double, 2>) (double, int)
  grid.exchange(field, other);  // error: no matching function for call to Grid<2>::exchange(const Field<double, 2>&, const Field<double, 3>&)
  const nearfield::Region<3> region = grid.interior();  // error: to non-scalar type Region<3>
}

void extents() {
  nearfield::Grid<2> right(MPI_COMM_WORLD, {.extents = {4, 4}, .halo = {{1, 0}, 2}, .periodic = {true, {false, true}}});
  nearfield::Grid<2> many(MPI_COMM_WORLD, {.extents = {4, 4, 4}});  // error: give one number per dimension of the grid
  nearfield::Grid<2> few(MPI_COMM_WORLD, {.extents = {4}});  // error: give one number per dimension of the grid
  nearfield::Grid<2> none(MPI_COMM_WORLD, {.halo = 1});  // error: give one number per dimension of the grid
  const nearfield::HaloWidths<2> widths{1, 1, 1};  // error: no matching function for call to PerSide<int, 2>::PerSide(<brace-enclosed initializer list>)
  take(nearfield::GridOptions<2>{.extents = {4, 4}, .dims = {1, 1, 1}});  // error: too many initializers for std::array<int, 2>
  nearfield::Grid<4> four(MPI_COMM_WORLD, {.extents = {4, 4, 4, 4}});  // error: a grid has one to three dimensions
}

void cells(nearfield::Grid<2>& grid) {
  const nearfield::Field<std::array<double, 3>, 2> right = grid.field<std::array<double, 3>>();
  take(right.view()(1, 2)[0]);
  const nearfield::Field<float, 2> floats = grid.field<double>();  // error: to non-scalar type Field<float, 2>
  const nearfield::View<float, 2> view = grid.field<double>().view();  // error: to non-scalar type View<float, 2>
  take(grid.field<std::string>());  // error: a cell is a number of at most 8 bytes
  take(grid.field<long double>());  // error: a cell is a number of at most 8 bytes
  take(grid.field<std::array<const char*, 2>>());  // error: a cell is a number of at most 8 bytes
  take(grid.field<double>(3));  // error: no matching function for call to Grid<2>::field<double>(int)
}

void copies(nearfield::Grid<2>& grid, nearfield::Field<double, 2>& field, nearfield::Exchange& exchange) {
  nearfield::Field<double, 2> moved = std::move(field);
  nearfield::Grid<2> grids = grid;  // error: use of deleted function Grid<N>::Grid(const Grid<N>&)
  nearfield::Grid<2> away = std::move(grid);  // error: use of deleted function Grid<N>::Grid(const Grid<N>&)
  nearfield::Field<double, 2> fields = field;  // error: use of deleted function constexpr Field<double, 2>::Field(const Field<double, 2>&)
  nearfield::Exchange exchanges = exchange;  // error: use of deleted function constexpr Exchange::Exchange(const Exchange&)
}
// clang-format on

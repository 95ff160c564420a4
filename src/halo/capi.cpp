// Implements the C interface (nearfield/halo.h) on top of Grid (grid.cpp): converts one to three dimensions to three,
// and exceptions to error codes.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>

#include "halo/grid.hpp"
#include "nearfield/halo.h"

using namespace nearfield::halo;

struct nf_grid {
  Grid grid;
  std::vector<nf_field*> fields;
  std::vector<nf_exchange*> exchanges;
  std::vector<Field*> fields_of_call;  // fields of the current call
};
struct nf_field {
  nf_grid* grid;
  Field* field;
};
struct nf_exchange {
  nf_grid* grid;
  std::vector<Array> arrays;
  std::unique_ptr<HaloExchange> forward, reverse;
};

namespace {

thread_local std::string last_error;

void require(bool holds, const char* text) {
  if (!holds) throw Error(ErrorCode::argument, text);
}

template <class Work>
int run_guarded(Work&& work) noexcept {
  try {
    work();
    return NF_OK;
  } catch (const Error& error) {
    last_error = error.what();
    return static_cast<int>(error.code);
  } catch (const std::bad_alloc&) {
    last_error = "out of memory";
    return NF_MEMORY;
  } catch (const std::exception& error) {
    last_error = error.what();
    return NF_INTERNAL;
  }
}

// Same as run_guarded(work), but if `grid` is null, returns NF_ARGUMENT without calling work().
template <class Work>
int run_guarded(const nf_grid* grid, Work&& work) noexcept {
  return run_guarded([&] {
    require(grid, "there is no grid");
    work();
  });
}

// Copies the text that work() returns into `text`, truncated to `size` bytes. Returns the size of the whole text with
// its terminating zero; 0 on failure.
template <class Work>
size_t copy_text(Work&& work, char* text, size_t size) {
  std::string full_text;
  if (run_guarded([&] { full_text = work(); }) != NF_OK) return 0;
  if (text && size) {
    const auto copied_bytes = std::min(size - 1, full_text.size());
    std::memcpy(text, full_text.data(), copied_bytes);
    text[copied_bytes] = 0;
  }
  return full_text.size() + 1;
}

NumberType check_number_type(nf_type type, int components) {
  require(type >= NF_I8 && type <= NF_F64, "there is no such type");
  require(components >= 1, "a cell has at least one component");
  return static_cast<NumberType>(type);
}

// A new member must not fit into the padding at the end of the struct: programs compiled without the member would
// appear to have set it.
static_assert(sizeof(nf_grid_options) == offsetof(nf_grid_options, costs) + sizeof(nf_grid_options::costs));

void check_struct_size(std::size_t bytes) {
  const std::string has = "nf_grid_options has a struct_size of " + std::to_string(bytes);
  if (bytes < offsetof(nf_grid_options, halo))
    throw Error(ErrorCode::argument, has + ", too little for its extents: begin with nf_grid_defaults()");
  if (bytes > sizeof(nf_grid_options))
    throw Error(ErrorCode::argument,
                has + ", but the library, version " NEARFIELD_VERSION ", knows " +
                    std::to_string(sizeof(nf_grid_options)) +
                    ": begin with nf_grid_defaults(), and load a library that is not older than the "
                    "nearfield/halo.h of the program");
}

nf_grid_options default_options() {
  nf_grid_options options{};
  options.struct_size = sizeof options;
  options.dimensions = 1;
  options.corners = 1;
  options.reorder = 1;
  for (auto& extent : options.extents) extent = 1;
  return options;
}

// Returns the options with the values of all members that the program was compiled with, and defaults for newer
// members.
nf_grid_options complete_options(const nf_grid_options* c_options) {
  check_struct_size(c_options->struct_size);
  nf_grid_options options = default_options();
  std::memcpy(&options, c_options, c_options->struct_size);
  return options;
}

GridOptions to_grid_options(const nf_grid_options& c_options) {
  GridOptions options;
  options.dimensions = c_options.dimensions;
  require(c_options.dimensions >= 1 && c_options.dimensions <= 3, "a grid has 1 to 3 dimensions");
  auto& layout = options.layout;
  for (int d = 0; d < 3; ++d) {
    const int from = d - 3 + c_options.dimensions;  // the library always uses three dimensions
    layout.extents[d] = from < 0 ? 1 : c_options.extents[from];
    layout.dims[d] = from < 0 ? 1 : c_options.dims[from];
    for (int side = 0; side < 2 && from >= 0; ++side) {
      layout.halo[d][side] = c_options.halo[from][side];
      layout.periodic[d][side] = c_options.periodic[from][side];
    }
  }
  layout.corners = c_options.corners;
  options.reorder = c_options.reorder;
  options.protocol = c_options.protocol ? c_options.protocol : "auto";
  options.limit_s = c_options.limit_s;
  options.costs = c_options.costs ? c_options.costs : "";
  return options;
}

// Returns the exchange of these fields, which the first call sets up. Reuses the memory of grid->fields_of_call, so
// that later calls do not allocate.
HaloExchange* find_or_make_exchange(nf_grid* grid, nf_field* const* fields, int count, const Widths& widths,
                                    bool should_add) {
  require(fields || count == 0, "there are no fields");
  grid->fields_of_call.clear();
  for (int i = 0; i < count; ++i) {
    require(fields[i] && fields[i]->grid == grid, "a field is of another grid");
    grid->fields_of_call.push_back(fields[i]->field);
  }
  return grid->grid.exchange_of(grid->fields_of_call, widths, should_add);
}

// Returns the name or summary of a protocol; null if `protocol` is not less than the number of protocols.
const char* protocol_string(int protocol, const char* ProtocolSpec::* text) {
  const auto& all = all_protocols();
  const auto number = static_cast<std::size_t>(protocol);  // a negative number becomes a huge one
  return number < all.size() ? all[number]->*text : nullptr;
}

template <class T>
void erase_pointer(std::vector<T*>& list, T* item) {
  list.erase(std::remove(list.begin(), list.end(), item), list.end());
}

}  // namespace

int nf_grid_options_init(nf_grid_options* options, size_t struct_size) {
  return run_guarded([&] {
    require(options, "options must not be null");
    const auto defaults = default_options();
    std::memset(options, 0, struct_size);
    std::memcpy(options, &defaults, std::min(struct_size, sizeof defaults));
    if (struct_size >= sizeof struct_size) options->struct_size = struct_size;  // nf_grid_create checks it again
    check_struct_size(struct_size);
  });
}

int nf_grid_create(MPI_Comm comm, const nf_grid_options* options, nf_grid** grid) {
  return run_guarded([&] {
    require(options && grid, "options and grid must not be null");
    int running = 0;
    MPI_Initialized(&running);
    require(running, "call MPI_Init first");
    *grid = nullptr;
    *grid = new nf_grid{Grid(comm, to_grid_options(complete_options(options))), {}, {}, {}};
  });
}

int nf_grid_create_f(MPI_Fint comm, const nf_grid_options* options, nf_grid** grid) {
  return nf_grid_create(MPI_Comm_f2c(comm), options, grid);
}

int nf_grid_free(nf_grid** grid) {
  if (!grid || !*grid) return NF_OK;
  return run_guarded([&] {
    for (auto* exchange : (*grid)->exchanges) delete exchange;
    for (auto* field : (*grid)->fields) delete field;
    delete *grid;
    *grid = nullptr;
  });
}

int nf_grid_get_info(const nf_grid* grid, nf_grid_info* info) {
  return run_guarded([&] {
    require(grid && info, "grid and info must not be null");
    const Grid& grid_object = grid->grid;
    *info = {};
    info->dimensions = grid_object.dimensions();
    info->rank = grid_object.node().rank;
    info->ranks = grid_object.node().size;
    info->ranks_per_node = grid_object.ranks_per_node();
    const Box own_box = grid_object.own_cells();
    for (int i = 0; i < grid_object.dimensions(); ++i) {
      const int d = i + 3 - grid_object.dimensions();
      info->dims[i] = grid_object.layout().dims[d];
      info->place[i] = grid_object.own_place()[d];
      info->start[i] = own_box.lo[d];
      info->count[i] = own_box.extents()[d];
    }
    info->neighbours_in_place = grid_object.num_neighbors_in_place();
    info->neighbours_on_node = grid_object.num_neighbors_on_node();
  });
}

size_t nf_grid_explain(const nf_grid* grid, char* text, size_t size) {
  return copy_text([&] { return grid->grid.explain(); }, text, size);
}

size_t nf_grid_costs(const nf_grid* grid, char* text, size_t size) {
  return copy_text([&] { return grid->grid.format_costs(); }, text, size);
}

int nf_field_create(nf_grid* grid, nf_type type, int components, int storage, nf_field** field) {
  return run_guarded([&] {
    require(grid && field, "grid and field must not be null");
    require(storage == NF_IN_PLACE || storage == NF_GHOSTED, "storage is NF_IN_PLACE or NF_GHOSTED");
    *field = nullptr;
    const auto number_type = check_number_type(type, components);
    Field& made = grid->grid.create_field(bytes_of_number(number_type) * static_cast<std::size_t>(components),
                                          number_type, storage == NF_GHOSTED);
    *field = new nf_field{grid, &made};
    grid->fields.push_back(*field);
  });
}

int nf_field_free(nf_field** field) {
  if (!field || !*field) return NF_OK;
  return run_guarded([&] {
    auto* grid = (*field)->grid;
    grid->grid.free_field(*(*field)->field);
    erase_pointer(grid->fields, *field);
    delete *field;
    *field = nullptr;
  });
}

void* nf_field_data(const nf_field* field) {
  return field->field->local_array().at(field->grid->grid.own_cells().lo).first;
}

void nf_field_strides(const nf_field* field, int64_t strides_bytes[3]) {
  const int dimensions = field->grid->grid.dimensions();
  for (int i = 0; i < dimensions; ++i) strides_bytes[i] = field->field->local_array().strides[i + 3 - dimensions];
}

int nf_field_in_place(const nf_field* field) { return field->field->is_in_place(); }

int nf_start(nf_grid* grid, nf_field* const* fields, int count) {
  return run_guarded(
      grid, [&] { grid->grid.start(find_or_make_exchange(grid, fields, count, grid->grid.layout().halo, false)); });
}

int nf_finish(nf_grid* grid) {
  return run_guarded(grid, [&] { grid->grid.finish(); });
}

int nf_exchange_fields(nf_grid* grid, nf_field* const* fields, int count) {
  const int code = nf_start(grid, fields, count);
  return code ? code : nf_finish(grid);
}

int nf_start_width(nf_grid* grid, nf_field* const* fields, int count, const int width[3][2]) {
  return run_guarded(grid, [&] {
    const auto& halo = grid->grid.layout().halo;
    const int dimensions = grid->grid.dimensions();
    Widths widths{};
    for (int i = 0; i < dimensions; ++i)
      for (int side = 0; side < 2; ++side) {
        const int d = i + 3 - dimensions;
        require(width[i][side] >= 0 && width[i][side] <= halo[d][side], "a width is larger than the grid's halo");
        widths[d][side] = width[i][side];
      }
    grid->grid.start(find_or_make_exchange(grid, fields, count, widths, false));
  });
}

int nf_accumulate(nf_grid* grid, nf_field* const* fields, int count) {
  return run_guarded(grid, [&] {
    grid->grid.start(find_or_make_exchange(grid, fields, count, grid->grid.layout().halo, true));
    grid->grid.finish();
  });
}

int nf_exchange_create(nf_grid* grid, const nf_array* arrays, int count, const char* protocol, nf_exchange** exchange) {
  return run_guarded([&] {
    require(grid && exchange && (arrays || count == 0), "grid, arrays and exchange must not be null");
    *exchange = nullptr;
    const Grid& grid_object = grid->grid;
    auto made = std::make_unique<nf_exchange>();
    made->grid = grid;
    for (int i = 0; i < count; ++i) {
      Array array;
      array.type = check_number_type(arrays[i].type, arrays[i].components);
      array.cell_bytes = bytes_of_number(array.type) * static_cast<std::size_t>(arrays[i].components);
      array.box = grid_object.own_cells();
      array.first = static_cast<std::byte*>(arrays[i].first);
      for (int j = 0; j < grid_object.dimensions(); ++j)
        array.strides[j + 3 - grid_object.dimensions()] = arrays[i].strides_bytes[j];
      made->arrays.push_back(array);
    }
    made->forward = grid->grid.exchange_of(made->arrays, protocol ? protocol : "auto", false);
    grid->exchanges.push_back(made.get());
    *exchange = made.release();
  });
}

int nf_exchange_free(nf_exchange** exchange) {
  if (!exchange || !*exchange) return NF_OK;
  return run_guarded([&] {
    const Grid& grid = (*exchange)->grid->grid;
    for (const auto* direction : {(*exchange)->forward.get(), (*exchange)->reverse.get()})
      if (direction && grid.is_under_way(direction))
        throw Error(ErrorCode::order, "an exchange is under way: call finish before it is freed");
    erase_pointer((*exchange)->grid->exchanges, *exchange);
    delete *exchange;
    *exchange = nullptr;
  });
}

int nf_exchange_start(nf_exchange* exchange) {
  return run_guarded([&] {
    require(exchange, "there is no exchange");
    exchange->grid->grid.start(exchange->forward.get());
  });
}

int nf_exchange_finish(nf_exchange* exchange) { return nf_finish(exchange ? exchange->grid : nullptr); }

int nf_exchange_run(nf_exchange* exchange) {
  const int code = nf_exchange_start(exchange);
  return code ? code : nf_exchange_finish(exchange);
}

int nf_exchange_accumulate(nf_exchange* exchange) {
  return run_guarded([&] {
    require(exchange, "there is no exchange");
    auto& grid = exchange->grid->grid;
    if (!exchange->reverse)
      exchange->reverse = grid.exchange_of(exchange->arrays, exchange->forward->spec().name, true);
    grid.start(exchange->reverse.get());
    grid.finish();
  });
}

const char* nf_exchange_protocol(const nf_exchange* exchange) { return exchange->forward->spec().name; }

const char* nf_protocol_name(int number) { return protocol_string(number, &ProtocolSpec::name); }
const char* nf_protocol_summary(int number) { return protocol_string(number, &ProtocolSpec::summary); }

const char* nf_error_text(void) { return last_error.c_str(); }

/* nearfield's halo library, C interface. docs/tutorials/halo.md is a tutorial.
 *
 * A grid is a box of cells, decomposed into one part per rank. A field has one or more numbers per cell, and ghost
 * cells around the part of each rank. Inside a node a field is ONE array: the ghost cells of a rank are the cells of
 * its neighbours themselves, so loops cross the border without a copy and without MPI (Zhu et al., CCGrid 2015, section
 * III). Between nodes MPI fills the ghost cells. The slowest-varying dimension comes first, as in C.
 *
 * Phases. All ranks call nf_start and nf_finish alternately, with the same fields in the same order:
 *   nf_start   this rank's cells may be read; until nf_finish no rank may change cells that another rank reads
 *   nf_finish  returns when this rank may read its neighbours' cells, until the next nf_start
 * Between a finish and the next start, a cell that a neighbour may read must not be written. Two alternating arrays
 * (Jacobi) and coloured sweeps (one phase per colour) obey this rule by design. The rule does not apply to fields with
 * ghost cells of their own (NF_GHOSTED) and arrays of the caller (nf_exchange_create): after nf_finish the program may
 * change all their cells.
 *
 * Only neighbours wait for each other. All functions return 0 or an error code; nf_error_text() then returns the error
 * as text. Creating and freeing objects is collective over the communicator of the grid. One thread at a time may use a
 * grid.
 */
#ifndef NEARFIELD_HALO_H
#define NEARFIELD_HALO_H

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

/* The version of nearfield as a whole: pyproject.toml and CMakeLists.txt read it from these three lines. */
#define NEARFIELD_VERSION_MAJOR 0
#define NEARFIELD_VERSION_MINOR 1
#define NEARFIELD_VERSION_PATCH 0
#define NF_TEXT_OF(number) #number
#define NF_VERSION_OF(major, minor, patch) NF_TEXT_OF(major) "." NF_TEXT_OF(minor) "." NF_TEXT_OF(patch)
#define NEARFIELD_VERSION NF_VERSION_OF(NEARFIELD_VERSION_MAJOR, NEARFIELD_VERSION_MINOR, NEARFIELD_VERSION_PATCH)

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define NF_API __attribute__((visibility("default")))
#else
#define NF_API
#endif

enum {
  NF_OK = 0,
  NF_ARGUMENT = 1,    /* an invalid argument; the error text names it */
  NF_MEMORY = 2,      /* not enough memory on a node; all ranks of the node get this */
  NF_LOST = 3,        /* a neighbour's process has died */
  NF_LATE = 4,        /* a neighbour did not take part within the time limit */
  NF_UNAVAILABLE = 5, /* the protocol does not work on this system */
  NF_ORDER = 6,       /* start was called twice without finish, or finish without start */
  NF_INTERNAL = 7
};

typedef enum { NF_I8, NF_U8, NF_I16, NF_U16, NF_I32, NF_U32, NF_I64, NF_U64, NF_F32, NF_F64 } nf_type;

typedef struct nf_grid nf_grid;
typedef struct nf_field nf_field;
typedef struct nf_exchange nf_exchange;

typedef struct {
  size_t struct_size;   /* sizeof this struct when the program was compiled; set by nf_grid_defaults */
  int dimensions;       /* 1 to 3 */
  int64_t extents[3];   /* cells of the whole grid */
  int halo[3][2];       /* ghost cells at the low and the high side of each dimension, 0 or more */
  int periodic[3][2];   /* whether these ghost cells are filled from the opposite end of the grid */
  int corners;          /* whether ghost cells beyond two or three sides are filled, for box stencils */
  int dims[3];          /* ranks per dimension; 0: the library chooses */
  int reorder;          /* whether ranks may be reordered, so that the ranks of a node are neighbours */
  const char* protocol; /* NULL or "auto": in-place; or a name that `nearfield halo` lists */
  double limit_s;       /* seconds to wait for a living neighbour; 0: 600. A dead one is detected at once */
  const char* costs;    /* message costs: a file that `nearfield halo --costs PROFILE` wrote, read by rank 0. NULL:
                           the file that NEARFIELD_HALO_COSTS names on rank 0, otherwise built-in costs */
} nf_grid_options;

/* Sets one dimension of 1 cell, no halo, corners and reorder; the library chooses the rest. `struct_size` is the
 * caller's sizeof(nf_grid_options). Later versions add members at the end: a program compiled with fewer members keeps
 * running; a program compiled with more members than the library knows gets NF_ARGUMENT, also from nf_grid_create. */
NF_API int nf_grid_options_init(nf_grid_options* options, size_t struct_size);

/* Returns the default options, as set by nf_grid_options_init. Programs must start from them. */
static inline nf_grid_options nf_grid_defaults(void) {
  nf_grid_options options;
  nf_grid_options_init(&options, sizeof options);
  return options;
}

NF_API int nf_grid_create(MPI_Comm comm, const nf_grid_options* options, nf_grid** grid);
/* Same as nf_grid_create, with a Fortran handle of the communicator, also from py2f() of mpi4py. */
NF_API int nf_grid_create_f(MPI_Fint comm, const nf_grid_options* options, nf_grid** grid);
/* Frees the grid with its fields and exchanges, and sets *grid to NULL. */
NF_API int nf_grid_free(nf_grid** grid);

typedef struct {
  int dimensions;
  int rank, ranks;
  int ranks_per_node;      /* ranks on the node with the fewest */
  int dims[3];             /* ranks per dimension */
  int place[3];            /* this rank's place in the grid of ranks */
  int64_t start[3];        /* index of this rank's first cell in the whole grid; the part may be empty */
  int64_t count[3];        /* number of this rank's cells per dimension */
  int neighbours_in_place; /* number of ranks whose cells this rank reads in place */
  int neighbours_on_node;  /* number of ranks on this node for which this rank waits */
} nf_grid_info;
NF_API int nf_grid_get_info(const nf_grid* grid, nf_grid_info* info);

/* Writes a human-readable explanation of the grid's decisions (decomposition, neighbours, memory and pages): at most
 * `size` bytes including the terminating 0. Returns the size of the whole text. */
NF_API size_t nf_grid_explain(const nf_grid* grid, char* text, size_t size);
/* Writes the message costs on which the grid's decisions are based, in the format of a costs file. `size` and the
 * return value are as for nf_grid_explain. */
NF_API size_t nf_grid_costs(const nf_grid* grid, char* text, size_t size);

enum {
  NF_IN_PLACE = 0, /* neighbours on the node read the field in place, if the protocol of the grid supports it */
  NF_GHOSTED = 1   /* the field has ghost cells of its own on every rank */
};

/* Creates a field of `components` adjacent numbers of `type` per cell; all numbers are 0, also in ghost cells.
 * `storage` is NF_IN_PLACE or NF_GHOSTED. */
NF_API int nf_field_create(nf_grid* grid, nf_type type, int components, int storage, nf_field** field);
NF_API int nf_field_free(nf_field** field);
/* Returns the address of the first cell of this rank's part. Cell (i, j, k) of the part is at i*strides[0] +
 * j*strides[1] + k*strides[2] bytes from it; i, j and k range from -halo[d][0] up to count[d] + halo[d][1]. */
NF_API void* nf_field_data(const nf_field* field);
NF_API void nf_field_strides(const nf_field* field, int64_t strides_bytes[3]);
/* Returns whether neighbours on the node read the field in place. */
NF_API int nf_field_in_place(const nf_field* field);

/* Begin and end a phase that fills the ghost cells of `fields`. All ranks must pass the same fields. */
NF_API int nf_start(nf_grid* grid, nf_field* const* fields, int count);
NF_API int nf_finish(nf_grid* grid);
/* Calls nf_start and nf_finish. */
NF_API int nf_exchange_fields(nf_grid* grid, nf_field* const* fields, int count);
/* Same as nf_start, but fills only ghost cells up to this `width`, which is at most the halo width of the grid. */
NF_API int nf_start_width(nf_grid* grid, nf_field* const* fields, int count, const int width[3][2]);
/* Exchanges in reverse: sends ghost cells to their owners, which add them to their own cells. NF_GHOSTED fields only;
 * ghost cells do not change. */
NF_API int nf_accumulate(nf_grid* grid, nf_field* const* fields, int count);

/* An array of the caller with ghost cells: `first` is the address of the first cell of this rank's part, as for fields.
 * The arrays of an exchange must not move. `protocol` is the name of a protocol; NULL or "auto" for the protocol with
 * the lowest predicted cost; or "measured" for the protocol that was fastest in a few trial exchanges of the arrays. */
typedef struct {
  void* first;
  int64_t strides_bytes[3];
  nf_type type;
  int components;
} nf_array;
NF_API int nf_exchange_create(nf_grid* grid, const nf_array* arrays, int count, const char* protocol,
                              nf_exchange** exchange);
/* Frees the exchange. Must not be called between its start and finish. */
NF_API int nf_exchange_free(nf_exchange** exchange);
NF_API int nf_exchange_start(nf_exchange* exchange);
NF_API int nf_exchange_finish(nf_exchange* exchange);
NF_API int nf_exchange_run(nf_exchange* exchange); /* calls start and finish */
NF_API int nf_exchange_accumulate(nf_exchange* exchange);
NF_API const char* nf_exchange_protocol(const nf_exchange* exchange);

/* Return the name or the summary of protocol `number` (0, 1, ...); NULL if there is no such protocol. */
NF_API const char* nf_protocol_name(int number);
NF_API const char* nf_protocol_summary(int number);

/* Returns the text of the last error in this thread. */
NF_API const char* nf_error_text(void);

#ifdef __cplusplus
}
#endif
#endif

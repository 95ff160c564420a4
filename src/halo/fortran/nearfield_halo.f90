! nearfield's halo library for Fortran 2008: grids that are decomposed into one part per rank, and fields that
! neighbours on a node read in place. nearfield/halo.h defines phases and their rule; docs/tutorials/halo.md is a
! tutorial. The module is one file, so that users can copy it into their program and compile it with their own compiler,
! since compilers cannot read each other's module files.
!
!   type(grid) :: g
!   type(field) :: u
!   real(real64), pointer :: p(:, :)
!   call g%create(MPI_COMM_WORLD, [nx, ny], halo=1)    ! with mpi_f08: MPI_COMM_WORLD%mpi_val
!   call u%create(g, nf_real64)
!   call u%cells(p)                                    ! p(1:, 1:) are this rank's; p(0, j) is a neighbour's
!   call g%exchange([u])
!
! Dimensions are in Fortran order everywhere, the fastest-varying first. Procedures take `stat` and `errmsg`; without
! `stat`, an error stops the program with its text. Loops are fastest in procedures whose arguments are assumed-shape
! arrays with the halo in their lower bound, as in `real(real64), intent(in) :: p(0:, 0:)`: such arguments do not alias.
! They must not be `contiguous` or of explicit shape: rows are padded_array, so the compiler would copy them in and out.
!
! The module uses no MPI module, so that any compiler can compile it for any MPI. Fields have one component per cell.
module nearfield_halo
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int32, int64, real32, real64, error_unit
  implicit none
  private
  public :: grid, field

  ! Types of fields, kinds of storage, and values of `stat`, as in halo.h.
  integer, parameter, public :: nf_int32 = 4, nf_int64 = 6, nf_real32 = 8, nf_real64 = 9
  integer, parameter, public :: nf_in_place = 0, nf_ghosted = 1
  integer, parameter, public :: nf_ok = 0, nf_argument = 1, nf_memory = 2, nf_lost = 3, nf_late = 4, &
                                nf_unavailable = 5, nf_order = 6, nf_internal = 7

  type :: grid
    integer :: dimensions = 0
    integer :: rank = 0                 !< rank in the grid, from 0
    integer :: ranks(3) = 1             !< number of ranks per dimension
    integer :: ranks_per_node = 1       !< number of ranks on the node with the fewest
    integer :: place(3) = 0             !< place of this rank in the grid of ranks, from 0
    integer(int64) :: first(3) = 1      !< index of this rank's first cell in the whole grid, from 1
    integer(int64) :: count(3) = 1      !< number of this rank's cells per dimension
    integer :: halo(2, 3) = 0           !< width of the ghost cells at the low and high side of each dimension
    type(c_ptr), private :: handle = c_null_ptr
  contains
    procedure :: create => grid_create
    procedure :: free => grid_free
    procedure :: explain => grid_explain
    procedure :: start => grid_start
    procedure :: finish => grid_finish
    procedure :: exchange => grid_exchange
    procedure :: accumulate => grid_accumulate
  end type grid

  type :: field
    integer, private :: kind_of = 0, dimensions = 0, halo(2, 3) = 0
    integer(int64), private :: count(3) = 1
    type(c_ptr), private :: handle = c_null_ptr
  contains
    procedure :: create => field_create
    procedure :: free => field_free
    procedure :: in_place => field_in_place
    procedure, private :: cells_int32_1, cells_int32_2, cells_int32_3, cells_int64_1, cells_int64_2, cells_int64_3
    procedure, private :: cells_real32_1, cells_real32_2, cells_real32_3
    procedure, private :: cells_real64_1, cells_real64_2, cells_real64_3
    !> Sets a pointer to the cells of this rank and the surrounding halo; indices 1 to count are this rank's cells.
    generic :: cells => cells_int32_1, cells_int32_2, cells_int32_3, cells_int64_1, cells_int64_2, cells_int64_3, &
      cells_real32_1, cells_real32_2, cells_real32_3, cells_real64_1, cells_real64_2, cells_real64_3
  end type field

  type, bind(c) :: nf_grid_options
    integer(c_size_t) :: struct_size
    integer(c_int) :: dimensions
    integer(c_int64_t) :: extents(3)
    integer(c_int) :: halo(2, 3), periodic(2, 3), corners, dims(3), reorder
    type(c_ptr) :: protocol
    real(c_double) :: limit_s
    type(c_ptr) :: costs
  end type nf_grid_options

  type, bind(c) :: nf_grid_info
    integer(c_int) :: dimensions, rank, ranks, ranks_per_node, dims(3), place(3)
    integer(c_int64_t) :: start(3), count(3)
    integer(c_int) :: neighbours_in_place, neighbours_on_node
  end type nf_grid_info

  ! The memory of a field as a Fortran array that starts at the first ghost cell: `extents` include the padding of rows
  ! and planes, `used_extents` do not; `lower` are the lower bounds.
  type :: padded_array
    type(c_ptr) :: first
    integer(c_int64_t) :: extents(3), used_extents(3), lower(3)
  end type padded_array

  interface
    integer(c_int) function nf_grid_options_init(options, struct_size) bind(c)
      import :: c_int, c_size_t, nf_grid_options
      type(nf_grid_options), intent(out) :: options
      integer(c_size_t), value :: struct_size
    end function
    integer(c_int) function nf_grid_create_f(comm, options, handle) bind(c)
      import :: c_int, c_ptr, nf_grid_options
      integer(c_int), value :: comm
      type(nf_grid_options), intent(in) :: options
      type(c_ptr), intent(out) :: handle
    end function
    integer(c_int) function nf_grid_free(handle) bind(c)
      import :: c_int, c_ptr
      type(c_ptr), intent(inout) :: handle
    end function
    integer(c_int) function nf_grid_get_info(handle, info) bind(c)
      import :: c_int, c_ptr, nf_grid_info
      type(c_ptr), value :: handle
      type(nf_grid_info), intent(out) :: info
    end function
    integer(c_size_t) function nf_grid_explain(handle, text, size) bind(c)
      import :: c_size_t, c_ptr, c_char
      type(c_ptr), value :: handle
      character(kind=c_char), intent(out) :: text(*)
      integer(c_size_t), value :: size
    end function
    integer(c_int) function nf_field_create(grid_handle, type, components, storage, handle) bind(c)
      import :: c_int, c_ptr
      type(c_ptr), value :: grid_handle
      integer(c_int), value :: type, components, storage
      type(c_ptr), intent(out) :: handle
    end function
    integer(c_int) function nf_field_free(handle) bind(c)
      import :: c_int, c_ptr
      type(c_ptr), intent(inout) :: handle
    end function
    type(c_ptr) function nf_field_data(handle) bind(c)
      import :: c_ptr
      type(c_ptr), value :: handle
    end function
    subroutine nf_field_strides(handle, strides) bind(c)
      import :: c_ptr, c_int64_t
      type(c_ptr), value :: handle
      integer(c_int64_t), intent(inout) :: strides(3)
    end subroutine
    integer(c_int) function nf_field_in_place(handle) bind(c)
      import :: c_int, c_ptr
      type(c_ptr), value :: handle
    end function
    integer(c_int) function nf_start(handle, fields, count) bind(c)
      import :: c_int, c_ptr
      type(c_ptr), value :: handle
      type(c_ptr), intent(in) :: fields(*)
      integer(c_int), value :: count
    end function
    integer(c_int) function nf_start_width(handle, fields, count, width) bind(c)
      import :: c_int, c_ptr
      type(c_ptr), value :: handle
      type(c_ptr), intent(in) :: fields(*)
      integer(c_int), value :: count
      integer(c_int), intent(in) :: width(2, 3)
    end function
    integer(c_int) function nf_finish(handle) bind(c)
      import :: c_int, c_ptr
      type(c_ptr), value :: handle
    end function
    integer(c_int) function nf_accumulate(handle, fields, count) bind(c)
      import :: c_int, c_ptr
      type(c_ptr), value :: handle
      type(c_ptr), intent(in) :: fields(*)
      integer(c_int), value :: count
    end function
    type(c_ptr) function nf_error_text() bind(c)
      import :: c_ptr
    end function
    integer(c_size_t) function strlen(text) bind(c)
      import :: c_size_t, c_ptr
      type(c_ptr), value :: text
    end function
  end interface

contains

  !> Creates a grid. Collective. comm: an integer handle. extents: cells of the whole grid per dimension. halo: one
  !> width for all sides, or halos(side, dimension). periodic: per dimension, or periodics(side, dimension). ranks:
  !> ranks per dimension; the library chooses those that are 0. costs: a file that `nearfield halo --costs` wrote.
  subroutine grid_create(self, comm, extents, halo, halos, periodic, periodics, corners, ranks, reorder, protocol, &
                         limit_s, costs, stat, errmsg)
    class(grid), intent(inout) :: self
    integer, intent(in) :: comm, extents(:)
    integer, intent(in), optional :: halo, halos(:, :), ranks(:)
    logical, intent(in), optional :: periodic(:), periodics(:, :), corners, reorder
    character(*), intent(in), optional :: protocol, costs
    real(real64), intent(in), optional :: limit_s
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(nf_grid_options) :: options
    character(kind=c_char, len=:), allocatable, target :: name, file
    integer :: n, code

    n = size(extents)
    if (has_wrong_sizes(n, halos, periodic, periodics, ranks)) then
      call report_result(nf_argument, stat, errmsg, &
                         "extents, halos, periodic(s) and ranks must be of the same 1 to 3 dimensions")
      return
    end if
    code = nf_grid_options_init(options, c_sizeof(options))
    if (code /= nf_ok) then
      call report_result(code, stat, errmsg)
      return
    end if
    options%dimensions = n
    self%halo = 0
    self%halo(:, :n) = 1
    if (present(halo)) self%halo(:, :n) = halo
    if (present(halos)) self%halo(:, :n) = halos
    options%extents(:n) = extents(n:1:-1)
    options%halo(:, :n) = self%halo(:, n:1:-1)
    if (present(periodic)) options%periodic(:, :n) = spread(merge(1, 0, periodic(n:1:-1)), 1, 2)
    if (present(periodics)) options%periodic(:, :n) = merge(1, 0, periodics(:, n:1:-1))
    if (present(ranks)) options%dims(:n) = ranks(n:1:-1)
    if (present(corners)) options%corners = merge(1, 0, corners)
    if (present(reorder)) options%reorder = merge(1, 0, reorder)
    if (present(limit_s)) options%limit_s = limit_s
    name = "auto" // c_null_char
    if (present(protocol)) name = trim(protocol) // c_null_char
    options%protocol = c_loc(name)
    if (present(costs)) then
      file = trim(costs) // c_null_char
      options%costs = c_loc(file)
    end if
    code = nf_grid_create_f(int(comm, c_int), options, self%handle)
    if (code == nf_ok) code = read_info(self)
    call report_result(code, stat, errmsg)
  end subroutine grid_create

  pure logical function has_wrong_sizes(n, halos, periodic, periodics, ranks)
    integer, intent(in) :: n
    integer, intent(in), optional :: halos(:, :), ranks(:)
    logical, intent(in), optional :: periodic(:), periodics(:, :)
    has_wrong_sizes = n < 1 .or. n > 3
    if (present(halos)) has_wrong_sizes = has_wrong_sizes .or. any(shape(halos) /= [2, n])
    if (present(periodic)) has_wrong_sizes = has_wrong_sizes .or. size(periodic) /= n
    if (present(periodics)) has_wrong_sizes = has_wrong_sizes .or. any(shape(periodics) /= [2, n])
    if (present(ranks)) has_wrong_sizes = has_wrong_sizes .or. size(ranks) /= n
  end function has_wrong_sizes

  ! Sets the components of a new grid, with dimensions in Fortran order and indices from 1.
  integer function read_info(self) result(code)
    class(grid), intent(inout) :: self
    type(nf_grid_info) :: info
    integer :: n
    code = nf_grid_get_info(self%handle, info)
    n = info%dimensions
    self%dimensions = n
    self%rank = info%rank
    self%ranks_per_node = info%ranks_per_node
    self%ranks = 1
    self%place = 0
    self%first = 1
    self%count = 1
    self%ranks(:n) = info%dims(n:1:-1)
    self%place(:n) = info%place(n:1:-1)
    self%first(:n) = info%start(n:1:-1) + 1
    self%count(:n) = info%count(n:1:-1)
  end function read_info

  !> Frees the grid and its fields. Collective. Do not free the fields afterwards.
  subroutine grid_free(self, stat, errmsg)
    class(grid), intent(inout) :: self
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call report_result(nf_grid_free(self%handle), stat, errmsg)
  end subroutine grid_free

  !> Returns a human-readable explanation of the grid's decisions.
  function grid_explain(self) result(text)
    class(grid), intent(in) :: self
    character(:), allocatable :: text
    character(kind=c_char) :: empty_text(1)
    character(kind=c_char), allocatable :: letters(:)
    integer(c_size_t) :: i
    allocate (letters(nf_grid_explain(self%handle, empty_text, 0_c_size_t)))
    i = nf_grid_explain(self%handle, letters, size(letters, kind=c_size_t))
    allocate (character(size(letters) - 1) :: text)
    do i = 1, len(text)
      text(i:i) = letters(i)
    end do
  end function grid_explain

  !> Starts a phase: from now on, neighbours may read this rank's cells of these fields. No rank may change cells that
  !> another rank reads until `finish`. width(side, dimension): fill only ghost cells up to this width.
  subroutine grid_start(self, fields, width, stat, errmsg)
    class(grid), intent(in) :: self
    class(field), intent(in) :: fields(:)
    integer, intent(in), optional :: width(:, :)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_int) :: reversed(2, 3)
    integer :: n
    n = self%dimensions
    if (.not. present(width)) then
      call report_result(nf_start(self%handle, handles_of(fields), size(fields)), stat, errmsg)
    else if (any(shape(width) /= [2, n])) then
      call report_result(nf_argument, stat, errmsg, "width must be of two sides and the grid's dimensions")
    else
      reversed = 0
      reversed(:, :n) = width(:, n:1:-1)
      call report_result(nf_start_width(self%handle, handles_of(fields), size(fields), reversed), stat, errmsg)
    end if
  end subroutine grid_start

  !> Ends a phase: returns when this rank may read its neighbours' cells, until the next start.
  subroutine grid_finish(self, stat, errmsg)
    class(grid), intent(in) :: self
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call report_result(nf_finish(self%handle), stat, errmsg)
  end subroutine grid_finish

  !> Runs a whole phase: start and finish.
  subroutine grid_exchange(self, fields, width, stat, errmsg)
    class(grid), intent(in) :: self
    class(field), intent(in) :: fields(:)
    integer, intent(in), optional :: width(:, :)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call self%start(fields, width, stat, errmsg)
    if (present(stat)) then
      if (stat /= nf_ok) return
    end if
    call self%finish(stat, errmsg)
  end subroutine grid_exchange

  !> Sends ghost cells to their owners, which add them to their own cells. Only for nf_ghosted fields.
  subroutine grid_accumulate(self, fields, stat, errmsg)
    class(grid), intent(in) :: self
    class(field), intent(in) :: fields(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call report_result(nf_accumulate(self%handle, handles_of(fields), size(fields)), stat, errmsg)
  end subroutine grid_accumulate

  !> Creates a field of zeros, including ghost cells. Collective. kind_of: nf_int32, nf_int64, nf_real32 or nf_real64.
  subroutine field_create(self, on, kind_of, storage, stat, errmsg)
    class(field), intent(inout) :: self
    class(grid), intent(in) :: on
    integer, intent(in) :: kind_of
    integer, intent(in), optional :: storage
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_int) :: storage_kind
    storage_kind = nf_in_place
    if (present(storage)) storage_kind = int(storage, c_int)
    self%kind_of = kind_of
    self%dimensions = on%dimensions
    self%halo = on%halo
    self%count = on%count
    call report_result(nf_field_create(on%handle, int(kind_of, c_int), 1_c_int, storage_kind, self%handle), stat, &
                       errmsg)
  end subroutine field_create

  !> Frees the field; must be called before its grid is freed. Collective.
  subroutine field_free(self, stat, errmsg)
    class(field), intent(inout) :: self
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call report_result(nf_field_free(self%handle), stat, errmsg)
  end subroutine field_free

  !> Returns whether neighbours on the node read the field in place.
  logical function field_in_place(self)
    class(field), intent(in) :: self
    field_in_place = nf_field_in_place(self%handle) /= 0
  end function field_in_place

  function handles_of(fields) result(list)
    class(field), intent(in) :: fields(:)
    type(c_ptr) :: list(size(fields))
    integer :: i
    do i = 1, size(fields)
      list(i) = fields(i)%handle
    end do
  end function handles_of

  ! Returns the result of a call in `stat` and `errmsg`. On an error without `stat`, stops the program with the text.
  ! `own_message` is the text of an error that this module, not the library, has found.
  subroutine report_result(code, stat, errmsg, own_message)
    integer, intent(in) :: code
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    character(*), intent(in), optional :: own_message
    character(:), allocatable :: text
    if (present(stat)) stat = code
    if (code == nf_ok) return
    if (present(own_message)) then
      text = own_message
    else
      text = error_text()
    end if
    if (present(errmsg)) errmsg = text
    if (present(stat)) return
    write (error_unit, '(2a)') "nearfield: ", text
    error stop 1
  end subroutine report_result

  function error_text() result(text)
    character(:), allocatable :: text
    character(kind=c_char), pointer :: letters(:)
    type(c_ptr) :: at
    integer :: i
    at = nf_error_text()
    call c_f_pointer(at, letters, [strlen(at)])
    allocate (character(size(letters)) :: text)
    do i = 1, size(letters)
      text(i:i) = letters(i)
    end do
  end function error_text

  ! Describes the memory of a field as a Fortran array. The distance between rows is a multiple of the cell size, and
  ! the distance between planes a multiple of the distance between rows.
  type(padded_array) function padded_array_of(self, kind_of, bytes, dimensions) result(memory)
    class(field), intent(in) :: self
    integer, intent(in) :: kind_of, bytes, dimensions
    integer(c_int64_t) :: strides(3), strides_fastest_first(4)
    integer(c_intptr_t) :: address
    integer :: n
    n = self%dimensions
    if (kind_of /= self%kind_of .or. dimensions /= n) &
      call report_result(nf_argument, own_message="the pointer is of another type or rank than the field")
    call nf_field_strides(self%handle, strides)
    strides_fastest_first(:n) = strides(n:1:-1)
    memory%lower = 1 - self%halo(1, :)
    memory%used_extents = self%count + self%halo(1, :) + self%halo(2, :)
    memory%extents = memory%used_extents
    if (n > 1) memory%extents(:n - 1) = strides_fastest_first(2:n) / strides_fastest_first(:n - 1)
    address = transfer(nf_field_data(self%handle), address)
    address = address - int(dot_product(int(self%halo(1, :n), c_int64_t), strides_fastest_first(:n)), c_intptr_t)
    memory%first = transfer(address, memory%first)
    if (bytes /= strides_fastest_first(1)) &
      call report_result(nf_internal, own_message="cells are not next to each other")
  end function padded_array_of

  ! One procedure per type and rank: Fortran has no templates, and an include file would be a second file to copy.
  subroutine cells_int32_1(self, p)
    class(field), intent(in) :: self
    integer(int32), pointer, intent(out) :: p(:)
    integer(int32), pointer :: padded_cells(:)
    type(padded_array) :: m
    m = padded_array_of(self, nf_int32, 4, 1)
    call c_f_pointer(m%first, padded_cells, m%extents(:1))
    p(m%lower(1):) => padded_cells(:m%used_extents(1))
  end subroutine cells_int32_1

  subroutine cells_int32_2(self, p)
    class(field), intent(in) :: self
    integer(int32), pointer, intent(out) :: p(:, :)
    integer(int32), pointer :: padded_cells(:, :)
    type(padded_array) :: m
    m = padded_array_of(self, nf_int32, 4, 2)
    call c_f_pointer(m%first, padded_cells, m%extents(:2))
    p(m%lower(1):, m%lower(2):) => padded_cells(:m%used_extents(1), :m%used_extents(2))
  end subroutine cells_int32_2

  subroutine cells_int32_3(self, p)
    class(field), intent(in) :: self
    integer(int32), pointer, intent(out) :: p(:, :, :)
    integer(int32), pointer :: padded_cells(:, :, :)
    type(padded_array) :: m
    m = padded_array_of(self, nf_int32, 4, 3)
    call c_f_pointer(m%first, padded_cells, m%extents(:3))
    p(m%lower(1):, m%lower(2):, m%lower(3):) => padded_cells(:m%used_extents(1), :m%used_extents(2), :m%used_extents(3))
  end subroutine cells_int32_3

  subroutine cells_int64_1(self, p)
    class(field), intent(in) :: self
    integer(int64), pointer, intent(out) :: p(:)
    integer(int64), pointer :: padded_cells(:)
    type(padded_array) :: m
    m = padded_array_of(self, nf_int64, 8, 1)
    call c_f_pointer(m%first, padded_cells, m%extents(:1))
    p(m%lower(1):) => padded_cells(:m%used_extents(1))
  end subroutine cells_int64_1

  subroutine cells_int64_2(self, p)
    class(field), intent(in) :: self
    integer(int64), pointer, intent(out) :: p(:, :)
    integer(int64), pointer :: padded_cells(:, :)
    type(padded_array) :: m
    m = padded_array_of(self, nf_int64, 8, 2)
    call c_f_pointer(m%first, padded_cells, m%extents(:2))
    p(m%lower(1):, m%lower(2):) => padded_cells(:m%used_extents(1), :m%used_extents(2))
  end subroutine cells_int64_2

  subroutine cells_int64_3(self, p)
    class(field), intent(in) :: self
    integer(int64), pointer, intent(out) :: p(:, :, :)
    integer(int64), pointer :: padded_cells(:, :, :)
    type(padded_array) :: m
    m = padded_array_of(self, nf_int64, 8, 3)
    call c_f_pointer(m%first, padded_cells, m%extents(:3))
    p(m%lower(1):, m%lower(2):, m%lower(3):) => padded_cells(:m%used_extents(1), :m%used_extents(2), :m%used_extents(3))
  end subroutine cells_int64_3

  subroutine cells_real32_1(self, p)
    class(field), intent(in) :: self
    real(real32), pointer, intent(out) :: p(:)
    real(real32), pointer :: padded_cells(:)
    type(padded_array) :: m
    m = padded_array_of(self, nf_real32, 4, 1)
    call c_f_pointer(m%first, padded_cells, m%extents(:1))
    p(m%lower(1):) => padded_cells(:m%used_extents(1))
  end subroutine cells_real32_1

  subroutine cells_real32_2(self, p)
    class(field), intent(in) :: self
    real(real32), pointer, intent(out) :: p(:, :)
    real(real32), pointer :: padded_cells(:, :)
    type(padded_array) :: m
    m = padded_array_of(self, nf_real32, 4, 2)
    call c_f_pointer(m%first, padded_cells, m%extents(:2))
    p(m%lower(1):, m%lower(2):) => padded_cells(:m%used_extents(1), :m%used_extents(2))
  end subroutine cells_real32_2

  subroutine cells_real32_3(self, p)
    class(field), intent(in) :: self
    real(real32), pointer, intent(out) :: p(:, :, :)
    real(real32), pointer :: padded_cells(:, :, :)
    type(padded_array) :: m
    m = padded_array_of(self, nf_real32, 4, 3)
    call c_f_pointer(m%first, padded_cells, m%extents(:3))
    p(m%lower(1):, m%lower(2):, m%lower(3):) => padded_cells(:m%used_extents(1), :m%used_extents(2), :m%used_extents(3))
  end subroutine cells_real32_3

  subroutine cells_real64_1(self, p)
    class(field), intent(in) :: self
    real(real64), pointer, intent(out) :: p(:)
    real(real64), pointer :: padded_cells(:)
    type(padded_array) :: m
    m = padded_array_of(self, nf_real64, 8, 1)
    call c_f_pointer(m%first, padded_cells, m%extents(:1))
    p(m%lower(1):) => padded_cells(:m%used_extents(1))
  end subroutine cells_real64_1

  subroutine cells_real64_2(self, p)
    class(field), intent(in) :: self
    real(real64), pointer, intent(out) :: p(:, :)
    real(real64), pointer :: padded_cells(:, :)
    type(padded_array) :: m
    m = padded_array_of(self, nf_real64, 8, 2)
    call c_f_pointer(m%first, padded_cells, m%extents(:2))
    p(m%lower(1):, m%lower(2):) => padded_cells(:m%used_extents(1), :m%used_extents(2))
  end subroutine cells_real64_2

  subroutine cells_real64_3(self, p)
    class(field), intent(in) :: self
    real(real64), pointer, intent(out) :: p(:, :, :)
    real(real64), pointer :: padded_cells(:, :, :)
    type(padded_array) :: m
    m = padded_array_of(self, nf_real64, 8, 3)
    call c_f_pointer(m%first, padded_cells, m%extents(:3))
    p(m%lower(1):, m%lower(2):, m%lower(3):) => padded_cells(:m%used_extents(1), :m%used_extents(2), :m%used_extents(3))
  end subroutine cells_real64_3
end module nearfield_halo

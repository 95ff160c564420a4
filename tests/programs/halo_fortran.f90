! Checks the Fortran module: that cells have the indices they should in all types and dimensions, that ghost cells hold
! what their owners wrote, and that errors can be caught. Prints "ok" from rank 0; exit code 1 on failure.
program halo_fortran
  use, intrinsic :: iso_fortran_env, only: int32, int64, real32, real64
  use mpi
  use nearfield_halo
  implicit none
  integer :: failures = 0, rank, ranks, code

  call MPI_Init(code)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, code)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, code)
  call check_box()
  call check_sides()
  call check_line()
  call check_sums()
  call check_errors()
  call MPI_Allreduce(MPI_IN_PLACE, failures, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, code)
  if (rank == 0 .and. failures == 0) print '(a)', "ok"
  call MPI_Finalize(code)
  if (failures > 0) stop 1

contains

  subroutine expect(holds, what)
    logical, intent(in) :: holds
    character(*), intent(in) :: what
    if (holds) return
    failures = failures + 1
    print '(a,i0,2a)', "rank ", rank, ": ", what
  end subroutine expect

  ! The cell that a ghost cell of a periodic dimension shows.
  pure integer function inside(i, n)
    integer, intent(in) :: i, n
    inside = modulo(i - 1, n) + 1
  end function inside

  ! Three dimensions, periodic, corners; rows and planes of the size for which the library pads both.
  subroutine check_box()
    integer, parameter :: n(3) = [14, 30, 9]
    type(grid) :: g
    type(field) :: f(2)
    integer(int64), pointer :: a(:, :, :)
    real(real64), pointer :: b(:, :, :)
    integer :: i, j, k, at(3), wrong
    call g%create(MPI_COMM_WORLD, n, periodic=[.true., .true., .true.])
    call f(1)%create(g, nf_int64)
    call f(2)%create(g, nf_real64)
    call f(1)%cells(a)
    call f(2)%cells(b)
    call expect(all(lbound(a) == 0) .and. all(ubound(a) == g%count + 1), "bounds include the halo")
    call expect(g%dimensions == 3 .and. product(g%ranks) == ranks .and. g%ranks_per_node == ranks, "what a grid tells")
    do k = 1, int(g%count(3))
      do j = 1, int(g%count(2))
        do i = 1, int(g%count(1))
          at = int(g%first) + [i, j, k] - 1
          a(i, j, k) = at(1) + 100 * at(2) + 10000 * at(3)
          b(i, j, k) = -a(i, j, k)
        end do
      end do
    end do
    call g%exchange(f)
    wrong = 0
    do k = 0, int(g%count(3)) + 1
      do j = 0, int(g%count(2)) + 1
        do i = 0, int(g%count(1)) + 1
          at = int(g%first) + [i, j, k] - 1
          at = [inside(at(1), n(1)), inside(at(2), n(2)), inside(at(3), n(3))]
          if (a(i, j, k) /= at(1) + 100 * at(2) + 10000 * at(3) .or. b(i, j, k) /= -a(i, j, k)) wrong = wrong + 1
        end do
      end do
    end do
    call expect(wrong == 0, "cells of a box")
    call expect(len(g%explain()) > 20, "the grid explains itself")
    call g%free()
  end subroutine check_box

  ! Two dimensions, another width on every side, all but one periodic; by MPI alone.
  subroutine check_sides()
    integer, parameter :: n(2) = [17, 23]
    type(grid) :: g
    type(field) :: f
    real(real32), pointer :: p(:, :)
    integer :: i, j, at(2), should, wrong
    call g%create(MPI_COMM_WORLD, n, halos=reshape([2, 0, 1, 3], [2, 2]), &
                  periodics=reshape([.true., .true., .false., .true.], [2, 2]), protocol="sendrecv")
    call f%create(g, nf_real32)
    call f%cells(p)
    call expect(all(lbound(p) == [-1, 0]) .and. all(ubound(p) == g%count(:2) + [0, 3]), "bounds of four widths")
    do j = 1, int(g%count(2))
      do i = 1, int(g%count(1))
        p(i, j) = real(g%first(1) + i - 1 + 100 * (g%first(2) + j - 1), real32)
      end do
    end do
    call g%exchange([f])
    wrong = 0
    do j = lbound(p, 2), ubound(p, 2)
      do i = lbound(p, 1), ubound(p, 1)
        at = int(g%first(:2)) + [i, j] - 1
        should = inside(at(1), n(1)) + 100 * inside(at(2), n(2))
        if (at(2) < 1) should = 0
        if (p(i, j) /= real(should, real32)) wrong = wrong + 1
      end do
    end do
    call expect(wrong == 0, "cells with four widths")
    call f%free()
    call g%free()
  end subroutine check_sides

  ! One dimension, and only some of the ghost cells.
  subroutine check_line()
    type(grid) :: g
    type(field) :: f
    integer(int32), pointer :: p(:)
    integer :: i, n
    call g%create(MPI_COMM_WORLD, [20 * ranks], halo=3, periodic=[.true.], protocol="direct")
    call f%create(g, nf_int32)
    call f%cells(p)
    n = int(g%count(1))
    do i = 1, n
      p(i) = int(g%first(1)) + i - 1
    end do
    call g%start([f], width=reshape([2, 1], [2, 1]))
    call g%finish()
    call expect(all(p(-1:0) == [(inside(int(g%first(1)) + i, 20 * ranks), i=-2, -1)]), "two cells below")
    call expect(p(n + 1) == inside(int(g%first(1)) + n, 20 * ranks), "one cell above")
    call expect(p(-2) == 0 .and. all(p(n + 2:) == 0), "no others")
    call g%free()
  end subroutine check_line

  subroutine check_sums()
    type(grid) :: g
    type(field) :: f
    real(real64), pointer :: p(:, :)
    integer :: n(2)
    call g%create(MPI_COMM_WORLD, [12, 8 * ranks], periodic=[.true., .true.], ranks=[1, ranks])
    call f%create(g, nf_real64, storage=nf_ghosted)
    call f%cells(p)
    n = int(g%count(:2))
    p = 1
    call g%accumulate([f])
    call expect(p(6, 4) == 1 .and. p(6, 1) == 2 .and. p(6, n(2)) == 2 .and. p(1, 4) == 2, "sums of ghost cells")
    call expect(.not. f%in_place(), "fields with ghost cells of their own are not in place")
    call expect(all(g%ranks == [1, ranks, 1]), "ranks in Fortran's order")
    call g%free()
  end subroutine check_sums

  subroutine check_errors()
    type(grid) :: g
    character(200) :: text
    integer :: stat
    text = ""
    call g%create(MPI_COMM_WORLD, [10, 10], ranks=[1, ranks + 1], stat=stat, errmsg=text)
    call expect(stat == nf_argument .and. index(text, "ranks") > 0, "too many ranks are an error with a text")
    call g%create(MPI_COMM_WORLD, [10, 10], periodic=[.true.], stat=stat)
    call expect(stat == nf_argument, "one answer for two dimensions is an error")
    call g%create(MPI_COMM_WORLD, [10, 10], costs="no/such/file", stat=stat, errmsg=text)
    call expect(stat == nf_argument .and. index(text, "no/such/file") > 0, "a file of costs that is not there is an error")
    call g%create(MPI_COMM_WORLD, [10, 10], stat=stat)
    call g%finish(stat=stat, errmsg=text)
    call expect(stat == nf_order, "finish without start is an error")
    call g%free(stat=stat)
    call expect(stat == nf_ok, "free is none")
  end subroutine check_errors

end program halo_fortran

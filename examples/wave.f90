! Sound in two dimensions, in Fortran: pressures at the centres of cells, velocities on their sides. Every field has one
! copy: velocities are updated from pressures and pressures from velocities, so that no rank writes a cell that a
! neighbour reads. One exchange moves both velocities.
!   build  cmake -S examples -B build/examples -DCMAKE_PREFIX_PATH=PREFIX && cmake --build build/examples
!   run    mpirun -n 4 build/examples/wave --nx 300 --ny 200 --steps 150 --frame wave.pgm [--check]
! --frame writes the pressure as a grey picture; --check compares with a serial run, bit for bit, and ends with exit
! code 1 if they differ.
module wave_kernels
  use, intrinsic :: iso_fortran_env, only: real64
  implicit none
  real(real64), parameter :: courant = 0.5_real64

contains

  ! Returns the initial pressure, a drop left of the middle. i and j are indices in the whole grid.
  pure real(real64) function at_first(i, j, nx, ny)
    integer, intent(in) :: i, j, nx, ny
    real(real64) :: x, y
    x = (i - 0.35_real64 * nx) / (0.06_real64 * nx + 1)
    y = (j - 0.5_real64 * ny) / (0.06_real64 * ny + 1)
    at_first = exp(-x * x - y * y)
  end function at_first

  ! Updates the velocities. Assumed-shape arguments do not alias, so compilers vectorise. Lower bounds include the halo.
  pure subroutine push(nx, ny, p, u, v)
    integer, intent(in) :: nx, ny
    real(real64), intent(in) :: p(0:, 0:)
    real(real64), intent(inout) :: u(0:, 0:), v(0:, 0:)
    integer :: j
    do j = 1, ny
      u(1:nx, j) = u(1:nx, j) - courant * (p(2:nx + 1, j) - p(1:nx, j))
      v(1:nx, j) = v(1:nx, j) - courant * (p(1:nx, j + 1) - p(1:nx, j))
    end do
  end subroutine push

  pure subroutine squeeze(nx, ny, p, u, v)
    integer, intent(in) :: nx, ny
    real(real64), intent(inout) :: p(0:, 0:)
    real(real64), intent(in) :: u(0:, 0:), v(0:, 0:)
    integer :: j
    do j = 1, ny
      p(1:nx, j) = p(1:nx, j) - courant * (u(1:nx, j) - u(0:nx - 1, j) + v(1:nx, j) - v(1:nx, j - 1))
    end do
  end subroutine squeeze

end module wave_kernels

program wave
  use, intrinsic :: iso_fortran_env, only: real64, error_unit
  use mpi_f08
  use nearfield_halo
  use wave_kernels
  implicit none
  integer :: nx = 300, ny = 200, steps = 150
  character(1000) :: frame = ""
  logical :: check = .false., right
  type(grid) :: g
  type(field) :: pressure, across, along
  real(real64), pointer :: p(:, :)

  call MPI_Init()
  call read_arguments()
  call g%create(MPI_COMM_WORLD%mpi_val, [nx, ny], halo=1, corners=.false.)
  call pressure%create(g, nf_real64)
  call across%create(g, nf_real64)
  call along%create(g, nf_real64)
  call pressure%cells(p)
  call simulate()
  call say_energy()
  if (frame /= "") call write_frame(trim(frame))
  right = .true.
  if (check) right = is_right()
  call g%free()
  call MPI_Finalize()
  if (.not. right) stop 1

contains

  subroutine read_arguments()
    character(1000) :: word
    integer :: at
    at = 1
    do while (at <= command_argument_count())
      call get_command_argument(at, word)
      select case (word)
      case ("--nx"); nx = number_after(at)
      case ("--ny"); ny = number_after(at)
      case ("--steps"); steps = number_after(at)
      case ("--check"); check = .true.
      case ("--frame")
        call get_command_argument(at + 1, frame)
        at = at + 1
      case default
        call refuse("there are --nx N --ny N --steps N --frame FILE --check, but no " // trim(word))
      end select
      at = at + 1
    end do
  end subroutine read_arguments

  integer function number_after(at) result(value)
    integer, intent(inout) :: at
    character(100) :: word
    integer :: problem
    at = at + 1
    call get_command_argument(at, word)
    read (word, *, iostat=problem) value
    if (problem /= 0 .or. value < 1) call refuse("a number from 1 on is missing or is '" // trim(word) // "'")
  end function number_after

  subroutine refuse(text)
    character(*), intent(in) :: text
    write (error_unit, '(2a)') "error: ", text
    stop 2
  end subroutine refuse

  subroutine simulate()
    real(real64), pointer :: u(:, :), v(:, :)
    integer :: i, j, step, n(2)
    call across%cells(u)
    call along%cells(v)
    n = int(g%count(:2))
    do j = 1, n(2)
      do i = 1, n(1)
        p(i, j) = at_first(int(g%first(1)) + i - 1, int(g%first(2)) + j - 1, nx, ny)
      end do
    end do
    call g%exchange([pressure])
    do step = 1, steps
      call push(n(1), n(2), p, u, v)
      call g%exchange([across, along])
      call squeeze(n(1), n(2), p, u, v)
      call g%exchange([pressure])
    end do
  end subroutine simulate

  subroutine say_energy()
    real(real64) :: energy
    energy = sum(p(1:g%count(1), 1:g%count(2))**2)
    call MPI_Allreduce(MPI_IN_PLACE, energy, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD)
    if (g%rank == 0) print '(a,es20.12,a,i0,a)', "energy of pressure", energy, " after ", steps, " steps"
  end subroutine say_energy

  logical function is_right()
    real(real64), allocatable :: whole(:, :), u(:, :), v(:, :)
    integer :: i, j, step, wrong
    allocate (whole(0:nx + 1, 0:ny + 1), u(0:nx + 1, 0:ny + 1), v(0:nx + 1, 0:ny + 1), source=0.0_real64)
    do j = 1, ny
      do i = 1, nx
        whole(i, j) = at_first(i, j, nx, ny)
      end do
    end do
    do step = 1, steps
      call push(nx, ny, whole, u, v)
      call squeeze(nx, ny, whole, u, v)
    end do
    associate (i0 => g%first(1), j0 => g%first(2), n => g%count)
      wrong = count(p(1:n(1), 1:n(2)) /= whole(i0:i0 + n(1) - 1, j0:j0 + n(2) - 1))
    end associate
    call MPI_Allreduce(MPI_IN_PLACE, wrong, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
    if (g%rank == 0) print '(a,i0,a)', "check: ", wrong, " cells differ"
    is_right = wrong == 0
  end function is_right

  ! Writes the pressure as a picture; grey is zero pressure. Every rank sets its own cells; a sum combines the ranks.
  subroutine write_frame(file)
    character(*), intent(in) :: file
    integer, allocatable :: levels(:, :)
    integer :: i, j, unit, rank
    allocate (levels(nx, ny), source=0)
    do j = 1, int(g%count(2))
      do i = 1, int(g%count(1))
        levels(g%first(1) + i - 1, g%first(2) + j - 1) = max(0, min(255, nint(128 + 400 * p(i, j))))
      end do
    end do
    call MPI_Comm_rank(MPI_COMM_WORLD, rank)
    if (rank == 0) then
      call MPI_Reduce(MPI_IN_PLACE, levels, size(levels), MPI_INTEGER, MPI_SUM, 0, MPI_COMM_WORLD)
    else
      call MPI_Reduce(levels, levels, size(levels), MPI_INTEGER, MPI_SUM, 0, MPI_COMM_WORLD)
      return
    end if
    open (newunit=unit, file=file, access="stream", form="unformatted", status="replace")
    write (unit) "P5" // new_line("a") // decimal(nx) // " " // decimal(ny) // new_line("a") // "255" // new_line("a")
    write (unit) ((char(levels(i, j)), i=1, nx), j=1, ny)
    close (unit)
  end subroutine write_frame

  function decimal(number) result(text)
    integer, intent(in) :: number
    character(:), allocatable :: text
    character(20) :: digits
    write (digits, '(i0)') number
    text = trim(digits)
  end function decimal

end program wave

! Calls MPI from Fortran, checks what arrives, and prints a line. For any number of ranks. With -DF08 by `use mpi_f08`,
! with -DF77 by mpif.h, else by `use mpi`.
#ifdef F08
#define COMMUNICATOR type(MPI_Comm)
#define REQUEST type(MPI_Request)
#define TYPE type(MPI_Datatype)
#define STATUS type(MPI_Status)
#else
#define COMMUNICATOR integer
#define REQUEST integer
#define TYPE integer
#define STATUS integer, dimension(MPI_STATUS_SIZE)
#endif
program observed_fortran
#ifdef F08
  use mpi_f08
#elif !defined(F77)
  use mpi
#endif
  implicit none
#ifdef F77
  include 'mpif.h'
#endif
  integer :: rank, ranks, left, right, error, i, total
  integer :: numbers(4, 6), got(24), all(64)
  logical :: is_right, flag
  COMMUNICATOR :: half
  REQUEST :: requests(2)
  TYPE :: row
  STATUS :: seen

  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  right = mod(rank + 1, ranks)
  left = mod(rank + ranks - 1, ranks)
  numbers = reshape([(100 * rank + i, i = 1, 24)], [4, 6])

  call MPI_Type_vector(6, 1, 4, MPI_INTEGER, row, error)
  call MPI_Type_commit(row, error)
  call MPI_Irecv(got, 24, MPI_INTEGER, MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, requests(1), error)
  call MPI_Isend(numbers(2, 1), 1, row, right, 5, MPI_COMM_WORLD, requests(2), error)
  call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE, error)
  is_right = all_equal(got(1:6), [(100 * left + 2 + 4 * i, i = 0, 5)])
  call MPI_Type_free(row, error)

  call MPI_Sendrecv(numbers, 24, MPI_INTEGER, right, 6, got, 24, MPI_INTEGER, left, 6, MPI_COMM_WORLD, seen, error)
  is_right = is_right .and. got(24) == 100 * left + 24
  call MPI_Isend(numbers, 3, MPI_INTEGER, right, 7, MPI_COMM_WORLD, requests(1), error)
  call MPI_Probe(left, 7, MPI_COMM_WORLD, seen, error)
  call MPI_Recv(got, 3, MPI_INTEGER, left, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE, error)
  flag = .false.
  do while (.not. flag)
    call MPI_Test(requests(1), flag, MPI_STATUS_IGNORE, error)
  end do

  total = rank
  call MPI_Allreduce(MPI_IN_PLACE, total, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, error)
  is_right = is_right .and. total == ranks * (ranks - 1) / 2
  call MPI_Comm_split(MPI_COMM_WORLD, mod(rank, 2), rank, half, error)
  call MPI_Gather(rank, 1, MPI_INTEGER, all, 1, MPI_INTEGER, 0, half, error)
  call MPI_Bcast(numbers, 24, MPI_INTEGER, 0, half, error)
  call MPI_Comm_free(half, error)
  call MPI_Barrier(MPI_COMM_WORLD, error)
  print '(i0, a, l1, 2(1x, i0))', rank, ' is right: ', is_right, total, numbers(4, 6)
  call MPI_Finalize(error)
  if (.not. is_right) stop 1
contains
  logical function all_equal(a, b)
    integer, intent(in) :: a(:), b(:)
    all_equal = size(a) == size(b) .and. count(a == b) == size(b)
  end function
end program

/* Calls the MPI functions that `nearfield observe` records, each at least once, checks what they did, and prints a line
   for each group of calls: the same with and without observation. `observed_calls refused` uses what cannot be
   recorded, `observed_calls errors` makes MPI return errors. For any number of ranks. It is one file, since each MPI's
   compiler wrapper makes one program of it, and since it is read as the list of what is recorded. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { many = 20000 };
static int rank, ranks, left, right, failures;
static int asks; /* its simulation, which does not know all calls */
static int out[many], in[many];

static void check(int is_right, const char* what) {
  if (!is_right) failures++, fprintf(stderr, "rank %d: %s is wrong\n", rank, what);
}

static void filled(int tag) {
  for (int i = 0; i < many; ++i) out[i] = rank * 100000 + tag * 1000 + i % 1000, in[i] = -1;
}
static void arrived(int count, int tag, const char* what) {
  for (int i = 0; i < count; ++i)
    if (in[i] != left * 100000 + tag * 1000 + i % 1000) return check(0, what);
}

typedef int Sends(const void*, int, MPI_Datatype, int, int, MPI_Comm);
typedef int BeginsToSend(const void*, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request*);

static void sends(void) {
  Sends* const blocking[] = {MPI_Send, MPI_Ssend, MPI_Bsend, MPI_Rsend};
  BeginsToSend* const others[] = {MPI_Isend, MPI_Issend, MPI_Ibsend, MPI_Irsend};
  static char space[4 * many * sizeof(int) + 8 * MPI_BSEND_OVERHEAD];
  MPI_Buffer_attach(space, sizeof space);
  for (int mode = 0; mode < 4; ++mode)
    for (int count = 10; count <= many; count *= 2000) {
      MPI_Request requests[2];
      MPI_Status status;
      filled(mode);
      MPI_Irecv(in, many, MPI_INT, left, mode, MPI_COMM_WORLD, &requests[0]);
      MPI_Barrier(MPI_COMM_WORLD);
      blocking[mode](out, count, MPI_INT, right, mode, MPI_COMM_WORLD);
      MPI_Wait(&requests[0], &status);
      arrived(count, mode, "a blocking send");
      int got;
      MPI_Get_count(&status, MPI_INT, &got);
      check(got == count && status.MPI_SOURCE == left && status.MPI_TAG == mode, "a status");

      filled(mode + 4);
      MPI_Irecv(in, count, MPI_INT, MPI_ANY_SOURCE, mode + 4, MPI_COMM_WORLD, &requests[0]);
      MPI_Barrier(MPI_COMM_WORLD);
      others[mode](out, count, MPI_INT, right, mode + 4, MPI_COMM_WORLD, &requests[1]);
      MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
      arrived(count, mode + 4, "a nonblocking send");
    }
  void* detached;
  int size;
  MPI_Buffer_detach(&detached, &size);
  check(detached == space && size == sizeof space, "MPI_Buffer_detach");
}

static void exchanges(void) {
  MPI_Status status;
  filled(10);
  MPI_Sendrecv(out, many, MPI_INT, right, 10, in, many, MPI_INT, left, 10, MPI_COMM_WORLD, &status);
  arrived(many, 10, "MPI_Sendrecv");
  filled(11);
  memcpy(in, out, sizeof in);
  MPI_Sendrecv_replace(in, many, MPI_INT, right, 11, left, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  arrived(many, 11, "MPI_Sendrecv_replace");
  MPI_Send(out, 5, MPI_INT, MPI_PROC_NULL, 12, MPI_COMM_WORLD);
  MPI_Recv(in, 5, MPI_INT, MPI_PROC_NULL, 12, MPI_COMM_WORLD, &status);
  check(status.MPI_SOURCE == MPI_PROC_NULL, "MPI_PROC_NULL");
  MPI_Request requests[2];
  MPI_Irecv(in, 5, MPI_INT, MPI_PROC_NULL, 12, MPI_COMM_WORLD, &requests[0]);
  MPI_Isend(in, 5, MPI_INT, MPI_PROC_NULL, 12, MPI_COMM_WORLD, &requests[1]);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
}

static void probes(void) {
  MPI_Request request;
  MPI_Status status;
  MPI_Message message;
  for (int way = 0; way < 4; ++way) {
    int flag = 0, count = 0;
    filled(20 + way);
    MPI_Isend(out, 100 + way, MPI_INT, right, 20 + way, MPI_COMM_WORLD, &request);
    MPI_Barrier(MPI_COMM_WORLD); /* so that there are few failed polls */
    if (way == 0) MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
    if (way == 1)
      while (!flag) MPI_Iprobe(left, 21, MPI_COMM_WORLD, &flag, &status);
    if (way == 2) MPI_Mprobe(MPI_ANY_SOURCE, 22, MPI_COMM_WORLD, &message, &status);
    if (way == 3)
      while (!flag) MPI_Improbe(left, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &message, &status);
    MPI_Get_count(&status, MPI_INT, &count);
    check(count == 100 + way && status.MPI_TAG == 20 + way, "a probe");
    if (way < 2) MPI_Recv(in, count, MPI_INT, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (way == 2) MPI_Mrecv(in, count, MPI_INT, &message, MPI_STATUS_IGNORE);
    if (way == 3) {
      MPI_Request receive;
      MPI_Imrecv(in, count, MPI_INT, &message, &receive);
      MPI_Wait(&receive, MPI_STATUS_IGNORE);
    }
    arrived(count, 20 + way, "a probed message");
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
  }
}

static void persistent(void) {
  BeginsToSend* const makers[] = {MPI_Send_init, MPI_Ssend_init, MPI_Rsend_init};
  for (int mode = 0; mode < 3; ++mode) {
    MPI_Request requests[2];
    MPI_Recv_init(in, many, MPI_INT, left, 30, MPI_COMM_WORLD, &requests[0]);
    makers[mode](out, 50, MPI_INT, right, 30, MPI_COMM_WORLD, &requests[1]);
    for (int turn = 0; turn < 3; ++turn) {
      filled(30);
      if (mode == 2) {
        MPI_Start(&requests[0]);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Start(&requests[1]);
      } else {
        MPI_Startall(2, requests);
      }
      MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
      MPI_Wait(&requests[0], MPI_STATUS_IGNORE); /* it is inactive */
      arrived(50, 30, "a persistent request");
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
  }
}

/* Receives eight messages and completes the receives in the given way. */
static void completes(int way) {
  MPI_Request receives[8], sends[8];
  int index, flag, done = 0, indices[8], some;
  MPI_Status status, statuses[8];
  filled(40 + way);
  for (int i = 0; i < 8; ++i) MPI_Irecv(in + 100 * i, 100, MPI_INT, left, i, MPI_COMM_WORLD, &receives[i]);
  for (int i = 0; i < 8; ++i) MPI_Isend(out + 100 * i, 100, MPI_INT, right, i, MPI_COMM_WORLD, &sends[i]);
  MPI_Barrier(MPI_COMM_WORLD);
  while (done < 8) {
    flag = 0;
    some = 0;
    if (way == 0) MPI_Waitany(8, receives, &index, &status), flag = 1, check(status.MPI_TAG == index, "MPI_Waitany");
    if (way == 1) MPI_Testany(8, receives, &index, &flag, MPI_STATUS_IGNORE);
    if (way == 2) MPI_Waitsome(8, receives, &some, indices, statuses);
    if (way == 3) MPI_Testsome(8, receives, &some, indices, MPI_STATUSES_IGNORE);
    if (way == 4) MPI_Testall(8, receives, &flag, statuses), some = 8 * flag, flag = 0;
    if (way == 5) MPI_Test(&receives[done], &flag, &status);
    if (way == 6) {
      MPI_Request_get_status(receives[done], &flag, &status);
      if (flag) MPI_Wait(&receives[done], MPI_STATUS_IGNORE);
    }
    done += flag ? 1 : some;
  }
  arrived(800, 40 + way, "what was received");
  if (way == 0) {
    for (int i = 7; i >= 0; --i) MPI_Wait(&sends[i], MPI_STATUS_IGNORE);
  } else if (way == 1) {
    for (int i = 0; i < 8; ++i) MPI_Request_free(&sends[i]);
  } else {
    MPI_Waitall(8, sends, MPI_STATUSES_IGNORE);
  }
  MPI_Waitany(8, receives, &index, &status); /* none is left */
  check(index == MPI_UNDEFINED, "MPI_Waitany of none");
  MPI_Barrier(MPI_COMM_WORLD);
}

/* A product of 2x2 matrices, which does not commute. What it calls must not be recorded. */
static void multiply(void* a, void* b, int* length, MPI_Datatype* type) {
  int size;
  MPI_Request none = MPI_REQUEST_NULL;
  MPI_Type_size(*type, &size);
  MPI_Wait(&none, MPI_STATUS_IGNORE);
  for (int i = 0; i < *length; ++i) {
    int *x = (int*)a + 4 * i, *y = (int*)b + 4 * i;
    const int z[] = {x[0] * y[0] + x[1] * y[2], x[0] * y[1] + x[1] * y[3], x[2] * y[0] + x[3] * y[2],
                     x[2] * y[1] + x[3] * y[3]};
    memcpy(y, z, sizeof z);
  }
}

static void reductions(void) {
  MPI_Request r;
  MPI_Op op;
  MPI_Datatype matrix;
  int m[4] = {1, rank, 0, 1}, product[4], counts[64], one = rank + 1, sum = 0, sums[64], all = ranks * (ranks + 1) / 2;
  for (int i = 0; i < ranks; ++i) counts[i] = 1, sums[i] = rank + i;
  MPI_Op_create(multiply, 0, &op);
  MPI_Type_contiguous(4, MPI_INT, &matrix);
  MPI_Type_commit(&matrix);
  MPI_Allreduce(m, product, 1, matrix, op, MPI_COMM_WORLD);
  check(product[1] == all - ranks, "a reduction of matrices");
  MPI_Type_free(&matrix);
  MPI_Op_free(&op);
  MPI_Reduce(&one, &sum, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
  MPI_Ireduce(rank == 0 ? MPI_IN_PLACE : &sum, &sum, 1, MPI_INT, MPI_MAX, 0, MPI_COMM_WORLD, &r);
  MPI_Wait(&r, MPI_STATUS_IGNORE);
  check(rank != 0 || sum == all, "MPI_Reduce");
  MPI_Iallreduce(MPI_IN_PLACE, &one, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &r);
  MPI_Wait(&r, MPI_STATUS_IGNORE);
  check(one == all, "MPI_Iallreduce");
  MPI_Scan(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  check(sum == rank * (rank + 1) / 2, "MPI_Scan");
  MPI_Iscan(MPI_IN_PLACE, &one, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD, &r);
  MPI_Wait(&r, MPI_STATUS_IGNORE);
  MPI_Exscan(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  check(rank == 0 || sum == rank * (rank - 1) / 2, "MPI_Exscan");
  MPI_Iexscan(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &r);
  MPI_Wait(&r, MPI_STATUS_IGNORE);
  MPI_Reduce_scatter(sums, &sum, counts, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  check(sum == all - ranks + ranks * rank, "MPI_Reduce_scatter");
  MPI_Ireduce_scatter(MPI_IN_PLACE, sums, counts, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &r);
  MPI_Wait(&r, MPI_STATUS_IGNORE);
  check(sums[0] == sum, "MPI_Ireduce_scatter");
  MPI_Reduce_scatter_block(counts, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  check(sum == ranks, "MPI_Reduce_scatter_block");
  MPI_Ireduce_scatter_block(counts, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &r);
  MPI_Wait(&r, MPI_STATUS_IGNORE);
}

static void movements(void) {
  MPI_Request r;
  int counts[64], offsets[64], bytes[64], mine[64], all[64], back = -1, word = rank == 0 ? 7 : 0;
  MPI_Datatype types[64];
  for (int i = 0; i < ranks; ++i)
    counts[i] = 1, offsets[i] = ranks - 1 - i, bytes[i] = 4 * i, mine[i] = 10 * rank + i, types[i] = MPI_INT;
  MPI_Bcast(&word, 1, MPI_INT, 0, MPI_COMM_WORLD);
  check(word == 7, "MPI_Bcast");
  MPI_Ibcast(&word, 1, MPI_INT, ranks - 1, MPI_COMM_WORLD, &r);
  MPI_Wait(&r, MPI_STATUS_IGNORE);
  MPI_Ibarrier(MPI_COMM_WORLD, &r);
  MPI_Wait(&r, MPI_STATUS_IGNORE);
  MPI_Gather(&rank, 1, MPI_INT, all, 1, MPI_INT, 0, MPI_COMM_WORLD);
  MPI_Iscatter(all, 1, MPI_INT, &back, 1, MPI_INT, 0, MPI_COMM_WORLD, &r);
  MPI_Wait(&r, MPI_STATUS_IGNORE);
  check(back == rank, "MPI_Gather or MPI_Iscatter");
  MPI_Igather(rank == 0 ? MPI_IN_PLACE : &rank, 1, MPI_INT, all, 1, MPI_INT, 0, MPI_COMM_WORLD, &r);
  MPI_Wait(&r, MPI_STATUS_IGNORE);
  MPI_Scatter(all, 1, MPI_INT, rank == 0 ? MPI_IN_PLACE : &back, 1, MPI_INT, 0, MPI_COMM_WORLD);
  MPI_Gatherv(&rank, 1, MPI_INT, all, counts, offsets, MPI_INT, 0, MPI_COMM_WORLD);
  MPI_Iscatterv(all, counts, offsets, MPI_INT, &back, 1, MPI_INT, 0, MPI_COMM_WORLD, &r);
  MPI_Wait(&r, MPI_STATUS_IGNORE);
  check(back == rank && (rank != 0 || all[0] == ranks - 1), "MPI_Gatherv or MPI_Iscatterv");
  MPI_Igatherv(&rank, 1, MPI_INT, all, counts, offsets, MPI_INT, 0, MPI_COMM_WORLD, &r);
  MPI_Wait(&r, MPI_STATUS_IGNORE);
  MPI_Scatterv(all, counts, offsets, MPI_INT, &back, 1, MPI_INT, 0, MPI_COMM_WORLD);
  MPI_Allgather(&rank, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD);
  MPI_Iallgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, 1, MPI_INT, MPI_COMM_WORLD, &r);
  MPI_Wait(&r, MPI_STATUS_IGNORE);
  check(all[ranks - 1] == ranks - 1, "MPI_Allgather");
  MPI_Allgatherv(&rank, 1, MPI_INT, all, counts, offsets, MPI_INT, MPI_COMM_WORLD);
  MPI_Iallgatherv(&rank, 1, MPI_INT, all, counts, offsets, MPI_INT, MPI_COMM_WORLD, &r);
  MPI_Wait(&r, MPI_STATUS_IGNORE);
  check(all[0] == ranks - 1, "MPI_Iallgatherv");
  MPI_Alltoall(mine, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD);
  MPI_Ialltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, 1, MPI_INT, MPI_COMM_WORLD, &r);
  MPI_Wait(&r, MPI_STATUS_IGNORE);
  check(memcmp(all, mine, 4 * (size_t)ranks) == 0, "MPI_Alltoall there and back");
  MPI_Alltoallv(mine, counts, offsets, MPI_INT, all, counts, offsets, MPI_INT, MPI_COMM_WORLD);
  MPI_Ialltoallv(mine, counts, offsets, MPI_INT, all, counts, offsets, MPI_INT, MPI_COMM_WORLD, &r);
  MPI_Wait(&r, MPI_STATUS_IGNORE);
  MPI_Alltoallw(mine, counts, bytes, types, all, counts, bytes, types, MPI_COMM_WORLD);
  MPI_Ialltoallw(mine, counts, bytes, types, all, counts, bytes, types, MPI_COMM_WORLD, &r);
  MPI_Wait(&r, MPI_STATUS_IGNORE);
  check(all[ranks - 1] == 10 * (ranks - 1) + rank, "MPI_Ialltoallw");
}

/* Neighbourhood collectives on a communicator with `sources` and `destinations` neighbours. */
static void neighbours(MPI_Comm comm, int sources, int destinations) {
  MPI_Request r;
  int from[8], to[8], counts[8], offsets[8];
  MPI_Aint bytes[8];
  MPI_Datatype types[8];
  for (int i = 0; i < 8; ++i)
    from[i] = -1, to[i] = rank, counts[i] = 1, offsets[i] = i, bytes[i] = 4 * i, types[i] = MPI_INT;
  MPI_Neighbor_allgather(&rank, 1, MPI_INT, from, 1, MPI_INT, comm);
  MPI_Ineighbor_allgather(&rank, 1, MPI_INT, from, 1, MPI_INT, comm, &r);
  MPI_Wait(&r, MPI_STATUS_IGNORE);
  MPI_Neighbor_allgatherv(&rank, 1, MPI_INT, from, counts, offsets, MPI_INT, comm);
  MPI_Neighbor_alltoall(to, 1, MPI_INT, from, 1, MPI_INT, comm);
  MPI_Neighbor_alltoallv(to, counts, offsets, MPI_INT, from, counts, offsets, MPI_INT, comm);
  MPI_Ineighbor_alltoallv(to, counts, offsets, MPI_INT, from, counts, offsets, MPI_INT, comm, &r);
  MPI_Wait(&r, MPI_STATUS_IGNORE);
  MPI_Neighbor_alltoallw(to, counts, bytes, types, from, counts, bytes, types, comm);
  check(sources == 0 || from[0] == left, "a neighbourhood collective");
  check(from[sources] == -1 && destinations < 8, "the number of neighbours");
}

static int sum_over(MPI_Comm comm) {
  int sum = 0;
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm);
  return sum;
}

static void exercise(MPI_Comm comm, const char* what) {
  int size = 0, sum = 0;
  if (comm == MPI_COMM_NULL) return;
  MPI_Comm_size(comm, &size);
  sum = sum_over(comm);
  printf("%d %s %d %d\n", rank, what, size, sum);
  MPI_Comm_free(&comm);
}

static void communicators(void) {
  MPI_Comm comm, half, other;
  MPI_Request requests[2];
  MPI_Group world, low;
  int range[1][3] = {{0, (ranks - 1) / 2, 1}}, dims[] = {ranks, 1}, periods[] = {1, 0}, remain[] = {1, 0}, index[64],
      edges[128];
  for (int i = 0; i < ranks; ++i)
    index[i] = 2 * i + 2, edges[2 * i] = (i + ranks - 1) % ranks, edges[2 * i + 1] = (i + 1) % ranks;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm), MPI_Comm_set_name(comm, "a \"copy\""), exercise(comm, "dup");
  MPI_Comm_dup_with_info(MPI_COMM_WORLD, MPI_INFO_NULL, &comm), exercise(comm, "dup_with_info");
  MPI_Comm_idup(MPI_COMM_WORLD, &comm, &requests[0]), MPI_Comm_idup(MPI_COMM_WORLD, &other, &requests[1]);
  for (int i = 0; i < 2; ++i) MPI_Wait(&requests[rank % 2 ? i : 1 - i], MPI_STATUS_IGNORE);
  exercise(comm, "idup"), exercise(other, "another idup");
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2 ? 1 : 0, -rank, &comm), exercise(comm, "split");
  MPI_Comm_split(MPI_COMM_WORLD, rank == 0 ? 0 : MPI_UNDEFINED, 0, &comm), exercise(comm, "split of one");
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &comm), exercise(comm, "split_type");
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Group_range_incl(world, 1, range, &low);
  MPI_Comm_create(MPI_COMM_WORLD, low, &comm), exercise(comm, "create");
  if (!asks && rank <= range[0][1])
    MPI_Comm_create_group(MPI_COMM_WORLD, low, 5, &comm), exercise(comm, "create_group");
  MPI_Group_free(&world), MPI_Group_free(&low);

  MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &comm);
  MPI_Cart_sub(comm, remain, &half), exercise(half, "cart_sub");
  neighbours(comm, 4, 4), exercise(comm, "cart");
  MPI_Graph_create(MPI_COMM_WORLD, ranks, index, edges, 0, &comm), neighbours(comm, 2, 2), exercise(comm, "graph");
  MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &left, MPI_UNWEIGHTED, 1, &right, MPI_UNWEIGHTED, MPI_INFO_NULL, 0,
                                 &comm);
  neighbours(comm, 1, 1), exercise(comm, "dist_graph_adjacent");
  MPI_Dist_graph_create(MPI_COMM_WORLD, 1, &rank, (int[]){1}, &right, (int[]){3}, MPI_INFO_NULL, 0, &comm);
  neighbours(comm, 1, 1), exercise(comm, "dist_graph");

  if (ranks == 1 || asks) return;
  const int is_odd = rank % 2;
  int got = -1;
  MPI_Comm_split(MPI_COMM_WORLD, is_odd, rank, &half);
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - is_odd, 9, &comm);
  if (rank < 2) MPI_Sendrecv(&rank, 1, MPI_INT, 0, 1, &got, 1, MPI_INT, 0, 1, comm, MPI_STATUS_IGNORE);
  check(rank >= 2 || got == 1 - rank, "a message between groups");
  MPI_Intercomm_merge(comm, is_odd, &other), exercise(other, "merge");
  MPI_Comm_free(&comm), MPI_Comm_free(&half);
}

/* Prints which ints of a buffer a datatype takes, in its order, as MPI_Pack does, and sends two elements of it. */
static void shows(MPI_Datatype type, const char* name) {
  int packed[4096], size = 0, place = 0, numbers[8192];
  MPI_Type_commit(&type);
  MPI_Type_size(type, &size);
  for (int i = 0; i < 8192; ++i) numbers[i] = 4 * (i - 1024);
  MPI_Pack(numbers + 1024, 1, type, packed, sizeof packed, &place, MPI_COMM_SELF);
  check(place == size && size % 4 == 0, name);
  MPI_Type_set_name(type, name);
  if (rank == 0) printf("bytes of %s:", name);
  for (int i = 0; i < size / 4 && rank == 0; ++i) printf(" %d", packed[i]);
  if (rank == 0) printf("\n");
  memset(in, 0, sizeof in);
  MPI_Sendrecv(numbers + 1024, 2, type, right, 50, in, many, MPI_INT, left, 50, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  check(memcmp(in, packed, (size_t)size) == 0, "a message of a datatype");
  MPI_Type_free(&type);
}

static void datatypes(void) {
  MPI_Datatype a, b;
  const int lengths[] = {2, 1, 3}, offsets[] = {4, 0, 9}, sizes[] = {4, 5, 6}, parts[] = {2, 3, 4},
            starts[] = {1, 1, 2};
  const MPI_Aint bytes[] = {40, 0, 80};
  const int turned[] = {MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_BLOCK};
  const int usual[] = {MPI_DISTRIBUTE_DFLT_DARG, MPI_DISTRIBUTE_DFLT_DARG};
  const int kinds[] = {MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC}, defaults[] = {MPI_DISTRIBUTE_DFLT_DARG, 2},
            two[] = {2, 2};
  MPI_Type_contiguous(5, MPI_INT, &a), shows(a, "contiguous");
  MPI_Type_vector(3, 2, 4, MPI_INT, &a), shows(a, "vector");
  MPI_Type_vector(3, 2, -4, MPI_INT, &a), shows(a, "backward vector");
  MPI_Type_create_hvector(3, 2, 20, MPI_INT, &a), shows(a, "hvector");
  MPI_Type_indexed(3, lengths, offsets, MPI_INT, &a), shows(a, "indexed");
  MPI_Type_create_hindexed(3, lengths, bytes, MPI_INT, &a), shows(a, "hindexed");
  MPI_Type_create_indexed_block(3, 2, offsets, MPI_INT, &a), shows(a, "indexed_block");
  MPI_Type_create_hindexed_block(3, 2, bytes, MPI_INT, &a), shows(a, "hindexed_block");
  MPI_Type_create_subarray(3, sizes, parts, starts, MPI_ORDER_C, MPI_INT, &a), shows(a, "subarray");
  MPI_Type_create_subarray(3, sizes, parts, starts, MPI_ORDER_FORTRAN, MPI_INT, &a), shows(a, "Fortran subarray");
  MPI_Type_create_darray(4, 2, 2, sizes, kinds, defaults, two, MPI_ORDER_C, MPI_INT, &a), shows(a, "darray");
  MPI_Type_create_darray(4, 1, 2, sizes, turned, usual, two, MPI_ORDER_FORTRAN, MPI_INT, &a),
      shows(a, "Fortran darray");
  MPI_Type_create_resized(MPI_INT, -4, 12, &a), MPI_Type_contiguous(4, a, &b), shows(b, "contiguous of resized");
  MPI_Type_free(&a);
  MPI_Type_vector(2, 1, 3, MPI_INT, &a), MPI_Type_create_hvector(3, 2, 64, a, &b), shows(b, "hvector of vectors");
  MPI_Type_dup(a, &b), shows(b, "dup");
  MPI_Type_create_struct(3, lengths, bytes, (MPI_Datatype[]){a, MPI_INT, MPI_2INT}, &b), shows(b, "struct");
  MPI_Type_free(&a);
  struct {
    short value;
    int place;
  } pair = {(short)rank, rank}, least;
  MPI_Allreduce(&pair, &least, 1, MPI_SHORT_INT, MPI_MINLOC, MPI_COMM_WORLD);
  check(least.place == 0, "MPI_SHORT_INT");
}

static void refused(void) {
  MPI_Win window;
  MPI_Request request;
  MPI_Win_create(in, sizeof in, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
  MPI_Win_free(&window);
  MPI_Irecv(in, 1, MPI_INT, left, 60, MPI_COMM_WORLD, &request);
  MPI_Cancel(&request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void errors(void) {
  MPI_Request request;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Isend(out, 100, MPI_INT, right, 70, MPI_COMM_WORLD, &request);
  int code = MPI_Recv(in, 10, MPI_INT, left, 70, MPI_COMM_WORLD, MPI_STATUS_IGNORE), class = 0;
  MPI_Error_class(code, &class);
  check(class == MPI_ERR_TRUNCATE, "the error of a message that is too long");
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  code = MPI_Send(out, 1, MPI_INT, ranks, 70, MPI_COMM_WORLD);
  MPI_Error_class(code, &class);
  check(class == MPI_ERR_RANK, "the error of a rank that does not exist");
}

int main(int argc, char** argv) {
  static char lines[8192];
  MPI_Init(&argc, &argv); /* in which MPICH and Intel MPI make it unbuffered */
  setvbuf(stdout, lines, _IOFBF, sizeof lines); /* lines of several ranks would come mixed */
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  right = (rank + 1) % ranks;
  left = (rank + ranks - 1) % ranks;
  asks = argc > 1 && strcmp(argv[1], "asking") == 0;
  if (argc > 1 && !asks) {
    strcmp(argv[1], "refused") == 0 ? refused() : errors();
  } else {
    sends();
    exchanges();
    probes();
    MPI_Pcontrol(1);
    persistent();
    for (int way = 0; way < 7; ++way) completes(way);
    MPI_Pcontrol(0);
    reductions();
    movements();
    communicators();
    datatypes();
  }
  printf("%d failures %d\n", rank, failures);
  MPI_Finalize();
  return failures != 0;
}

/* Programs with a fault each that `nearfield advise` must name first, at the line that says "fault", and programs without
   one. For a machine whose ranks have 256 KiB of L2 and 3 to 6 MiB of the last-level cache: advised NAME. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { message = 65536, far = 2 << 20 };  // doubles: 512 KiB and 16 MiB

static int rank, ranks;
static double sum;

static double *array(size_t count) { return calloc(count, sizeof(double)); }
static void fill(double *a, size_t count, int with) {
  for (size_t i = 0; i < count; ++i) a[i] = with + (double)i;
}
static void add_up(const double *a, size_t count) {
  for (size_t i = 0; i < count; ++i) sum += a[i];
}
/* Touches every line once. */
static void touch(double *a, size_t count) {
  for (size_t i = 0; i < count; i += 8) a[i] += 1;
}

/* S0's listing 1: rows are sent at the beginning of the sweep after that which wrote them. */
static void listing_1(void) {
  enum { rows = 12, columns = 65536 };
  double *now = array(rows * columns), *next = array(rows * columns);
  fill(now, rows * columns, rank);
  for (int step = 0; step < 4; ++step) {
    MPI_Sendrecv(now, columns, MPI_DOUBLE, 1 - rank, 0, now + (rows - 1) * columns, columns, MPI_DOUBLE, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);  // fault listing-1
    for (int i = 0; i < rows - 1; ++i)
      for (int j = 0; j < columns - 1; ++j)
        next[i * columns + j] = now[i * columns + j] + (now[(i + 1) * columns + j] + now[i * columns + j + 1]) / 4;
    double *other = now;
    now = next, next = other;
  }
  sum += now[0];
}

static void cold_send(void) {
  double *data = array(message), *others = array(far);
  for (int step = 0; step < 4; ++step) {
    if (rank == 0) {
      for (int i = 0; i < message; ++i) data[i] = step + i;  // written cold-send
      touch(others, far);
      MPI_Send(data, message, MPI_DOUBLE, 1, 0, MPI_COMM_WORLD);  // fault cold-send
    } else {
      MPI_Recv(data, message, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      add_up(data, message);
    }
  }
}

static void late_read(void) {
  double *data = array(message), *others = array(far);
  for (int step = 0; step < 4; ++step) {
    if (rank == 0) {
      fill(data, message, step);
      MPI_Send(data, message, MPI_DOUBLE, 1, 0, MPI_COMM_WORLD);
    } else {
      MPI_Recv(data, message, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);  // fault late-read
      touch(others, far);
      for (int i = 0; i < message; ++i) sum += data[i];  // read late-read
    }
  }
}

static void strided_face(void) {
  enum { rows = 8192, columns = 64 };
  double *field = array(rows * columns);
  MPI_Datatype column;
  MPI_Type_vector(rows, 1, columns, MPI_DOUBLE, &column);
  MPI_Type_commit(&column);
  for (int step = 0; step < 4; ++step) {
    if (rank == 0) {
      fill(field, rows * columns, step);
      MPI_Send(field + columns - 1, 1, column, 1, 0, MPI_COMM_WORLD);  // fault strided-datatype
    } else {
      MPI_Recv(field, 1, column, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      for (int i = 0; i < rows; ++i) sum += field[i * columns];
    }
  }
  MPI_Type_free(&column);
}

static void tiny_messages(void) {
  double values[500];
  for (int step = 0; step < 20; ++step) {
    if (rank == 0) fill(values, 500, step);
    for (int i = 0; i < 500; ++i)
      if (rank == 0)
        MPI_Send(values + i, 1, MPI_DOUBLE, 1, 0, MPI_COMM_WORLD);  // fault tiny-messages
      else
        MPI_Recv(values + i, 1, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    add_up(values, 500);
  }
}

static void oversized_message(void) {
  double *data = array(far);
  for (int step = 0; step < 2; ++step) {
    if (rank == 0) {
      fill(data, far, step);
      MPI_Send(data, far, MPI_DOUBLE, 1, 0, MPI_COMM_WORLD);  // fault oversized-message
    } else {
      MPI_Recv(data, far, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      add_up(data, far);
    }
  }
}

/* 16 rows of 16384 cells, split into four times four rows: four times 4096 columns would have short faces. */
static void bad_split(void) {
  enum { rows = 4, columns = 16384, width = columns };
  const int dims[2] = {4, 1}, periods[2] = {0, 0};
  int below, above;
  double *now = array((rows + 2) * width), *next = array((rows + 2) * width);
  MPI_Comm grid;
  MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &grid);
  MPI_Cart_shift(grid, 0, 1, &below, &above);
  for (int step = 0; step < 4; ++step) {
    for (int i = 1; i <= rows; ++i)
      for (int j = 1; j < columns - 1; ++j)
        next[i * width + j] = now[i * width + j] + (now[(i - 1) * width + j] + now[(i + 1) * width + j]) / 4;
    for (int up = 0; up < 2; ++up)
      MPI_Sendrecv(next + (up ? rows : 1) * width, columns, MPI_DOUBLE, up ? above : below, 0, next + (up ? 0 : rows + 1) * width, columns, MPI_DOUBLE, up ? below : above, 0, grid, MPI_STATUS_IGNORE);  // fault bad-split
    double *other = now;
    now = next, next = other;
  }
  sum += now[width + 1];
  MPI_Comm_free(&grid);
}

static void late_sender(void) {
  double value = rank;
  for (int step = 0; step < 3; ++step)
    if (rank == 0) {
      usleep(30000);
      MPI_Send(&value, 1, MPI_DOUBLE, 1, 0, MPI_COMM_WORLD);
    } else {
      MPI_Recv(&value, 1, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);  // fault late-sender
      sum += value;
    }
}

/* Beyond the eager limit of every MPI, so that the send waits. */
static void late_receiver(void) {
  double *data = array(message);
  for (int step = 0; step < 3; ++step)
    if (rank == 0) {
      MPI_Send(data, message, MPI_DOUBLE, 1, 0, MPI_COMM_WORLD);  // fault late-receiver
    } else {
      usleep(30000);
      MPI_Recv(data, message, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      add_up(data, message);
    }
}

static void late_to_collective(void) {
  double all;
  for (int step = 0; step < 16; ++step) {
    if (rank == 1) usleep(25000);
    MPI_Allreduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);  // fault late-to-collective
  }
}

/* ---- without a fault */

/* What listing 1 is made into (S0, listing 3): what is needed first is computed last, and sent at once. */
static void clean_stencil(void) {
  enum { rows = 12, columns = 65536 };
  double *now = array(rows * columns), *next = array(rows * columns);
  fill(now, rows * columns, rank);
  for (int step = 0; step < 2; ++step) {
    for (int i = rows - 3; i >= 0; --i)
      for (int j = 0; j < columns - 1; ++j)
        next[i * columns + j] = now[i * columns + j] + (now[(i + 1) * columns + j] + now[i * columns + j + 1]) / 4;
    MPI_Sendrecv(now, columns, MPI_DOUBLE, 1 - rank, 0, now + (rows - 1) * columns, columns, MPI_DOUBLE, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    const int i = rows - 2;
    for (int j = 0; j < columns - 1; ++j)
      next[i * columns + j] = now[i * columns + j] + (now[(i + 1) * columns + j] + now[i * columns + j + 1]) / 4;
    double *other = now;
    now = next, next = other;
  }
  sum += now[0];
}

/* Written, sent, received, read; other memory is touched before and after. */
static void clean_pipeline(void) {
  double *data = array(message), *others = array(far);
  for (int step = 0; step < 4; ++step) {
    touch(others, far);
    if (rank == 0) {
      fill(data, message, step);
      MPI_Send(data, message, MPI_DOUBLE, 1, 0, MPI_COMM_WORLD);
    } else {
      MPI_Recv(data, message, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      add_up(data, message);
    }
    touch(others, far);
  }
}

/* As it, but from a variable, which the shared heap cannot see, and from the stack. */
static void unseen_buffer(void) {
  static double variable[message];
  double local[message];
  for (int step = 0; step < 4; ++step)
    for (int i = 0; i < 2; ++i) {
      double *data = i ? local : variable;
      if (rank == 0) {
        fill(data, message, step);
        MPI_Send(data, message, MPI_DOUBLE, 1, 0, MPI_COMM_WORLD);  // unseen buffer
      } else {
        MPI_Recv(data, message, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        add_up(data, message);
      }
    }
}

/* Small messages whose answers are used before the next one is sent. */
static void clean_answers(void) {
  double value = rank, *others = array(message);
  for (int step = 0; step < 100; ++step) {
    double theirs;
    touch(others, message);
    MPI_Sendrecv(&value, 1, MPI_DOUBLE, 1 - rank, 0, &theirs, 1, MPI_DOUBLE, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    value += theirs;
  }
  sum += value;
}

/* Much computation, and sums. */
static void clean_sums(void) {
  double *data = array(message), all;
  for (int step = 0; step < 20; ++step) {
    fill(data, message, step);
    add_up(data, message);
    MPI_Allreduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);  // sums
  }
}

/* Ranks that are late in turns, as those that share a core are: nobody has more to do. */
static void clean_turns(void) {
  for (int step = 0; step < 10; ++step) {
    if (rank == step % 2) usleep(3000);
    MPI_Barrier(MPI_COMM_WORLD);
  }
}

static const struct {
  const char *name;
  void (*run)(void);
} programs[] = {
    {"listing-1", listing_1},         {"cold-send", cold_send},
    {"late-read", late_read},         {"strided-datatype", strided_face},
    {"tiny-messages", tiny_messages}, {"oversized-message", oversized_message},
    {"bad-split", bad_split},         {"late-sender", late_sender},
    {"late-receiver", late_receiver}, {"clean-stencil", clean_stencil},
    {"clean-pipeline", clean_pipeline}, {"clean-answers", clean_answers},
    {"clean-sums", clean_sums},       {"late-to-collective", late_to_collective},
    {"clean-turns", clean_turns},     {"unseen-buffer", unseen_buffer},
};

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (size_t i = 0; argc > 1 && i < sizeof programs / sizeof programs[0]; ++i)
    if (strcmp(programs[i].name, argv[1]) == 0) programs[i].run();
  if (sum == -1) printf("%g\n", sum);
  MPI_Finalize();
  return 0;
}

/* Ten kernels whose memory accesses differ in kind, to compare measured with simulated times (bench/trace_times.py).
   `kernels NAME CALLS` prepares the data, calls the kernel CALLS times, prints the ns of each call, then a checksum. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define KERNEL __attribute__((noinline)) double

static uint64_t state = 88172645463325252u;
static uint64_t next_random(void) {
  state ^= state << 13;
  state ^= state >> 7;
  return state ^= state << 17;
}

static void* allocate(size_t bytes) {
  void* const memory = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  if (!memory) abort();
  memset(memory, 0, bytes);
  return memory;
}

/* ---- matmul: a product of matrices, without blocking */
enum { matrix_rows = 160 };
static double *left, *right, *product;
static void prepare_matmul(void) {
  left = allocate(matrix_rows * matrix_rows * sizeof(double));
  right = allocate(matrix_rows * matrix_rows * sizeof(double));
  product = allocate(matrix_rows * matrix_rows * sizeof(double));
  for (int i = 0; i < matrix_rows * matrix_rows; ++i) left[i] = i % 7, right[i] = i % 5;
}
KERNEL matmul(void) {
  for (int i = 0; i < matrix_rows; ++i)
    for (int j = 0; j < matrix_rows; ++j) {
      double sum = 0;
      for (int k = 0; k < matrix_rows; ++k) sum += left[i * matrix_rows + k] * right[k * matrix_rows + j];
      product[i * matrix_rows + j] = sum;
    }
  return product[matrix_rows + 1];
}

/* ---- stencil: five points, from one grid to the other */
enum { grid_rows = 700, grid_columns = 800 };
static double *now, *then;
static void prepare_stencil(void) {
  now = allocate(grid_rows * grid_columns * sizeof(double));
  then = allocate(grid_rows * grid_columns * sizeof(double));
  for (int i = 0; i < grid_rows * grid_columns; ++i) now[i] = i % 11;
}
KERNEL stencil(void) {
  for (int i = 1; i < grid_rows - 1; ++i)
    for (int j = 1; j < grid_columns - 1; ++j) {
      const double* const at = now + i * grid_columns + j;
      then[i * grid_columns + j] = 0.2 * (at[0] + at[-1] + at[1] + at[-grid_columns] + at[grid_columns]);
    }
  return then[grid_columns + 1];
}

/* ---- gather: elements in random order, by an array of indices */
enum { gathered = 1 << 18, gather_elements = 1 << 21 };
static int32_t* indices;
static double* elements;
static void prepare_gather(void) {
  indices = allocate(gathered * sizeof(int32_t));
  elements = allocate(gather_elements * sizeof(double));
  for (int i = 0; i < gather_elements; ++i) elements[i] = i % 13;
  for (int i = 0; i < gathered; ++i) indices[i] = (int32_t)(next_random() % gather_elements);
}
KERNEL gather(void) {
  double sum = 0;
  for (int i = 0; i < gathered; ++i) sum += elements[indices[i]];
  return sum;
}

/* ---- list: a linked list in random order, beyond the caches of a core */
enum { list_nodes = 1 << 16 };
struct node {
  struct node* next;
  int64_t value;
  char rest[48];
};
static struct node* list_head;
static void prepare_list(void) {
  struct node* const nodes = allocate(list_nodes * sizeof(struct node));
  uint32_t* const order = allocate(list_nodes * sizeof(uint32_t));
  for (uint32_t i = 0; i < list_nodes; ++i) order[i] = i;
  for (uint32_t i = list_nodes - 1; i > 0; --i) {
    const uint32_t other = (uint32_t)(next_random() % (i + 1)), moved = order[i];
    order[i] = order[other];
    order[other] = moved;
  }
  for (uint32_t i = 0; i < list_nodes; ++i) {
    nodes[order[i]].value = order[i];
    nodes[order[i]].next = i + 1 < list_nodes ? &nodes[order[i + 1]] : NULL;
  }
  list_head = &nodes[order[0]];
  free(order);
}
KERNEL list(void) {
  int64_t sum = 0;
  for (const struct node* at = list_head; at; at = at->next) sum += at->value;
  return (double)sum;
}

/* ---- jumps: a cycle of indices that the second cache holds */
enum { cycle = 1 << 16 };
static uint32_t* successor;
static void prepare_jumps(void) {
  successor = allocate(cycle * sizeof(uint32_t));
  for (uint32_t i = 0; i < cycle; ++i) successor[i] = i;
  for (uint32_t i = cycle - 1; i > 0; --i) { /* Sattolo's algorithm: one cycle */
    const uint32_t other = (uint32_t)(next_random() % i), moved = successor[i];
    successor[i] = successor[other];
    successor[other] = moved;
  }
}
KERNEL jumps(void) {
  uint32_t at = 0;
  uint64_t sum = 0;
  for (int step = 0; step < cycle; ++step) sum += at = successor[at];
  return (double)sum;
}

/* ---- tree: searches for random keys in a binary tree */
enum { tree_nodes = (1 << 17) - 1, searches = 1 << 14 };
struct branch {
  int64_t key;
  struct branch* child[2];
};
static struct branch* root;
static int64_t* wanted;
static struct branch* build_tree(struct branch* nodes, const uint32_t* order, int64_t begin, int64_t end) {
  if (begin >= end) return NULL;
  const int64_t middle = (begin + end) / 2;
  struct branch* const top = &nodes[order[middle]];
  top->key = middle;
  top->child[0] = build_tree(nodes, order, begin, middle);
  top->child[1] = build_tree(nodes, order, middle + 1, end);
  return top;
}
static void prepare_tree(void) {
  struct branch* const nodes = allocate(tree_nodes * sizeof(struct branch));
  uint32_t* const order = allocate(tree_nodes * sizeof(uint32_t));
  for (uint32_t i = 0; i < tree_nodes; ++i) order[i] = i;
  for (uint32_t i = tree_nodes - 1; i > 0; --i) {
    const uint32_t other = (uint32_t)(next_random() % (i + 1)), moved = order[i];
    order[i] = order[other];
    order[other] = moved;
  }
  root = build_tree(nodes, order, 0, tree_nodes);
  free(order);
  wanted = allocate(searches * sizeof(int64_t));
  for (int i = 0; i < searches; ++i) wanted[i] = (int64_t)(next_random() % tree_nodes);
}
KERNEL tree(void) {
  int64_t found = 0;
  for (int i = 0; i < searches; ++i) {
    const struct branch* at = root;
    while (at && at->key != wanted[i]) at = at->child[at->key < wanted[i]];
    found += at ? at->key : 0;
  }
  return (double)found;
}

/* ---- merge_sort */
enum { sorted = 1 << 16 };
static double *unsorted, *values, *spare;
static void prepare_merge_sort(void) {
  unsorted = allocate(sorted * sizeof(double));
  values = allocate(sorted * sizeof(double));
  spare = allocate(sorted * sizeof(double));
  for (int i = 0; i < sorted; ++i) unsorted[i] = (double)(next_random() % 1000003);
}
KERNEL merge_sort(void) {
  memcpy(values, unsorted, sorted * sizeof(double));
  for (int width = 1; width < sorted; width *= 2) {
    for (int begin = 0; begin < sorted; begin += 2 * width) {
      int i = begin, j = begin + width;
      const int middle = j, end = begin + 2 * width;
      for (int k = begin; k < end; ++k)
        spare[k] = i < middle && (j >= end || values[i] <= values[j]) ? values[i++] : values[j++];
    }
    double* const other = values;
    values = spare;
    spare = other;
  }
  return values[sorted / 2];
}

/* ---- fft: of radix 2, in place */
enum { fft_points = 1 << 15 };
static double *real, *imaginary, *cosine, *sine;
static void prepare_fft(void) {
  real = allocate(fft_points * sizeof(double));
  imaginary = allocate(fft_points * sizeof(double));
  cosine = allocate(fft_points / 2 * sizeof(double));
  sine = allocate(fft_points / 2 * sizeof(double));
  for (int i = 0; i < fft_points; ++i) real[i] = i % 17;
  for (int i = 0; i < fft_points / 2; ++i) {
    cosine[i] = cos(2 * 3.14159265358979 * i / fft_points);
    sine[i] = -sin(2 * 3.14159265358979 * i / fft_points);
  }
}
KERNEL fft(void) {
  for (int half = fft_points / 2, step = 1; half >= 1; half /= 2, step *= 2)
    for (int begin = 0; begin < fft_points; begin += 2 * half)
      for (int k = 0; k < half; ++k) {
        const int i = begin + k, j = i + half;
        const double re = real[i] - real[j], im = imaginary[i] - imaginary[j];
        const double c = cosine[k * step], s = sine[k * step];
        real[i] = 0.5 * (real[i] + real[j]);
        imaginary[i] = 0.5 * (imaginary[i] + imaginary[j]);
        real[j] = 0.5 * (re * c - im * s);
        imaginary[j] = 0.5 * (re * s + im * c);
      }
  return real[1];
}

/* ---- sparse: a sparse matrix of random columns, times a vector */
enum { sparse_rows = 1 << 15, of_row = 16 };
static int32_t* columns;
static double *nonzeros, *vector, *result;
static void prepare_sparse(void) {
  columns = allocate(sparse_rows * of_row * sizeof(int32_t));
  nonzeros = allocate(sparse_rows * of_row * sizeof(double));
  vector = allocate(sparse_rows * sizeof(double));
  result = allocate(sparse_rows * sizeof(double));
  for (int i = 0; i < sparse_rows * of_row; ++i) {
    columns[i] = (int32_t)(next_random() % sparse_rows);
    nonzeros[i] = i % 3;
  }
  for (int i = 0; i < sparse_rows; ++i) vector[i] = i % 19;
}
KERNEL sparse(void) {
  for (int i = 0; i < sparse_rows; ++i) {
    double sum = 0;
    for (int k = i * of_row; k < (i + 1) * of_row; ++k) sum += nonzeros[k] * vector[columns[k]];
    result[i] = sum;
  }
  return result[5];
}

/* ---- hash_join: looks up the rows of one table in a hash table of another one, with chains */
enum { buckets = 1 << 16, build_rows = 1 << 16, probe_rows = 1 << 16 };
struct entry {
  uint64_t key, payload;
  struct entry* next;
};
static struct entry** table;
static uint64_t* keys;
static uint64_t bucket_of(uint64_t key) { return key * 0x9E3779B97F4A7C15u >> 48; }
static void prepare_hash_join(void) {
  table = allocate(buckets * sizeof(struct entry*));
  struct entry* const entries = allocate(build_rows * sizeof(struct entry));
  keys = allocate(probe_rows * sizeof(uint64_t));
  for (int i = 0; i < build_rows; ++i) {
    struct entry* const one = &entries[i];
    one->key = next_random() % (4 * build_rows);
    one->payload = (uint64_t)i;
    one->next = table[bucket_of(one->key)];
    table[bucket_of(one->key)] = one;
  }
  for (int i = 0; i < probe_rows; ++i) keys[i] = next_random() % (4 * build_rows);
}
KERNEL hash_join(void) {
  uint64_t sum = 0;
  for (int i = 0; i < probe_rows; ++i)
    for (const struct entry* at = table[bucket_of(keys[i])]; at; at = at->next)
      if (at->key == keys[i]) sum += at->payload;
  return (double)sum;
}

static const struct {
  const char* name;
  void (*prepare)(void);
  double (*run)(void);
} kernels[] = {
    {"matmul", prepare_matmul, matmul},
    {"stencil", prepare_stencil, stencil},
    {"gather", prepare_gather, gather},
    {"list", prepare_list, list},
    {"jumps", prepare_jumps, jumps},
    {"tree", prepare_tree, tree},
    {"merge_sort", prepare_merge_sort, merge_sort},
    {"fft", prepare_fft, fft},
    {"sparse", prepare_sparse, sparse},
    {"hash_join", prepare_hash_join, hash_join},
};

int main(int argc, char** argv) {
  for (size_t i = 0; argc == 3 && i < sizeof kernels / sizeof *kernels; ++i) {
    if (strcmp(argv[1], kernels[i].name) != 0) continue;
    kernels[i].prepare();
    double sum = 0;
    for (int call = 0; call < atoi(argv[2]); ++call) {
      struct timespec begin, end;
      clock_gettime(CLOCK_MONOTONIC, &begin);
      sum += kernels[i].run();
      clock_gettime(CLOCK_MONOTONIC, &end);
      printf("%.0f ns\n", 1e9 * (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec));
    }
    printf("checksum %.17g\n", sum);
    return 0;
  }
  fprintf(stderr, "usage: kernels NAME CALLS\n");
  return 2;
}

/* A program to trace: its data accesses and its own instructions are all there is (no libc, its stack is an array), at the
   same addresses in every run, and neither an access nor an instruction crosses 32 bytes. More code and data than the
   small caches of test_cachegrind.py hold. */
__asm__(".bundle_align_mode 5");
__asm__(".globl _start\n.p2align 5\n_start: lea stack_end(%rip), %rsp\n call walks\n mov $60, %eax\n xor %edi, %edi\n syscall");

enum { WORDS = 4096, SIDE = 48 };
typedef unsigned long word;

__attribute__((aligned(4096))) char stack[8192];
__attribute__((aligned(64))) char stack_end[64];
static __attribute__((aligned(4096))) word chain[WORDS];
static __attribute__((aligned(64))) word from[SIDE][SIDE], to[SIDE][SIDE];
static __attribute__((aligned(64))) unsigned histogram[1024];
static __attribute__((aligned(64))) unsigned char bytes[20000];

static word random_state = 12345;
static word random_below(word n) {
  random_state = random_state * 6364136223846793005ul + 1442695040888963407ul;
  return (random_state >> 33) % n;
}

/* A cycle through all words in random order (Sattolo). */
static void make_chain(void) {
  for (word i = 0; i < WORDS; ++i) chain[i] = i;
  for (word i = WORDS - 1; i > 0; --i) {
    const word j = random_below(i), old = chain[i];
    chain[i] = chain[j];
    chain[j] = old;
  }
}

static word chase(word steps) {
  word at = 0;
  while (steps--) at = chain[at];
  return at;
}

static void transpose(void) {
  for (int i = 0; i < SIDE; ++i)
    for (int j = 0; j < SIDE; ++j) to[j][i] = from[i][j] + (word)i;
}

static void count_random(word n) {
  while (n--) ++histogram[random_below(1024)];
}

static void stride(word step) {
  for (word i = 0; i < sizeof bytes; i += step) bytes[i] = (unsigned char)(bytes[(i * 7) % sizeof bytes] + step);
}

static word recurse(word depth) { return depth == 0 ? 1 : recurse(depth - 1) + depth; }

/* Different code each, so that instructions miss, too. */
#define STEP(n) \
  static word step_##n(word x) { \
    word y = x * (n + 3) + from[n % SIDE][x % SIDE]; \
    if (y & 1) y ^= histogram[(y + n) % 1024]; else to[n % SIDE][y % SIDE] = x; \
    return y + bytes[(y * n) % sizeof bytes]; \
  }
STEP(1) STEP(2) STEP(3) STEP(4) STEP(5) STEP(6) STEP(7) STEP(8) STEP(9) STEP(10) STEP(11) STEP(12)

void walks(void) {
  word x = 1;
  make_chain();
  for (word round = 0; round < 6; ++round) {
    x += chase(2000);
    transpose();
    count_random(700);
    stride(3 + 16 * round);
    x += recurse(90);
    for (int i = 0; i < 40; ++i) {
      x = step_1(x), x = step_2(x), x = step_3(x), x = step_4(x), x = step_5(x), x = step_6(x);
      x = step_7(x), x = step_8(x), x = step_9(x), x = step_10(x), x = step_11(x), x = step_12(x);
    }
  }
  chain[0] = x;
}

// The rules that a user gives for the transport parameters of pairs of ranks, which the Open MPI component
// (preload/openmpi) and the MPICH shim (preload/mpich) parse from two texts:
//   rules  DISTANCE:key=value,key=value;DISTANCE:...   with the keys of struct limits; a value is a number of bytes or,
//                                                      for single_copy_from only, `never`
//   pairs  RANK-RANK:DISTANCE;...                      pairs of world ranks whose distance is given
//
// A class is a distance that has a rule; all distances without a rule share DEFAULT_CLASS, which has the MPI's own
// limits. Compiles as C11, for the component, and as C++20, for the shim. Uses no MPI.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/distances.h"

#ifdef __cplusplus
extern "C" {
#endif

// Distances are numbered as in base/distances.h.
#define NEARFIELD_ADD_DISTANCE(enumerator, name) +1
enum { NUM_DISTANCES = 0 NEARFIELD_EACH_DISTANCE(NEARFIELD_ADD_DISTANCE), DEFAULT_CLASS = NUM_DISTANCES, NUM_CLASSES };

#define SINGLE_COPY_NEVER SIZE_MAX

// The limits of a class in bytes; 0 means the MPI's own value. eager_limit and max_send_size include Open MPI's own
// headers, as its MCA parameters of the same names do.
struct limits {
  size_t eager_limit;
  size_t max_send_size;
  size_t single_copy_from;  // smallest message that the kernel may copy directly from process to process
};
// The keys of struct limits, as a set of bits.
enum limit_key { KEY_EAGER_LIMIT = 1, KEY_MAX_SEND_SIZE = 2, KEY_SINGLE_COPY_FROM = 4, ALL_LIMIT_KEYS = 7 };

// A pair whose distance the user has given.
struct given_pair {
  uint32_t low_rank, high_rank;  // ranks in MPI_COMM_WORLD
  int distance;
};

struct pair_rules {
  bool has_rule[NUM_DISTANCES];  // whether there is a rule for the distance
  struct limits limits[NUM_CLASSES];
  struct given_pair* given_pairs;  // sorted by (low, high)
  size_t num_given_pairs;
};

// Parse the two texts into `rules`, which must be all zeros before the first call. `keys`: the keys that the MPI can
// set (enum limit_key). Return true, or false with a line in `error` that describes the mistake and its position in
// characters (from 1). An empty text is an empty set.
bool parse_rules(struct pair_rules* rules, unsigned keys, const char* text, char* error, size_t error_size);
bool parse_given_pairs(struct pair_rules* rules, const char* text, char* error, size_t error_size);
void free_rules(struct pair_rules* rules);

bool are_rules_empty(const struct pair_rules* rules);
bool has_class(const struct pair_rules* rules, int class_index);

// Returns the class of the pair of world ranks (own_rank, peer_rank). `distance`: as determined from the machine, or
// DEFAULT_CLASS if the ranks are on different nodes. If the user has given a distance for the pair, that one counts.
int class_of_pair(const struct pair_rules* rules, uint32_t own_rank, uint32_t peer_rank, int distance);

#ifdef __cplusplus
}
#endif

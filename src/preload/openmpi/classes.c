// Parses the two parameters of the component, and determines the class of a peer. Independent of transports.
#include "classes.h"

#include <ctype.h>
#include <opal/mca/hwloc/hwloc-internal.h>
#include <opal_config.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char* const distance_names[DISTANCES] = {NEARFIELD_EACH_DISTANCE(NEARFIELD_DISTANCE_NAME)};

struct key {
  const char* name;
  size_t offset;   // in struct limits
  size_t minimum;  // in bytes; Open MPI's headers require this much
};
static const struct key keys[] = {
    {"eager_limit", offsetof(struct limits, eager_limit), 256},
    {"max_send_size", offsetof(struct limits, max_send_size), 1024},
    {"single_copy_from", offsetof(struct limits, single_copy_from), 0},
};
enum { KEYS = sizeof keys / sizeof keys[0] };

struct parser {
  const char *text, *at;
  char* error;
  size_t error_size;
};

struct word {
  const char* start;
  size_t length;
};

// Writes the parser's error message: `what`, the word, the position of `where` and a hint. Returns false.
static bool fail_at(struct parser* p, const char* where, const char* what, struct word word, const char* hint) {
  snprintf(p->error, p->error_size, "%s '%.*s' at character %d%s%s", what, (int)word.length, word.start,
           (int)(where - p->text) + 1, *hint ? ", " : "", hint);
  return false;
}

// Returns the word from the present position up to one of the separators or the end of the text, and moves the position
// behind the word.
static struct word next_word(struct parser* p, const char* separators) {
  struct word word = {p->at, strcspn(p->at, separators)};
  p->at += word.length;
  return word;
}

static bool equals(struct word word, const char* name) {
  return strlen(name) == word.length && strncmp(word.start, name, word.length) == 0;
}

// Returns the edit distance of a word and a name of at most 63 characters.
static size_t edit_distance(struct word word, const char* name) {
  size_t row[64], n = strlen(name);
  for (size_t j = 0; j <= n; ++j) row[j] = j;
  for (size_t i = 0; i < word.length; ++i) {
    size_t diagonal = row[0]++;
    for (size_t j = 1; j <= n; ++j) {
      const size_t change = diagonal + (word.start[i] != name[j - 1]);
      diagonal = row[j];
      row[j] = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
      if (change < row[j]) row[j] = change;
    }
  }
  return row[n];
}

static const char* distance_name(int i) { return distance_names[i]; }
static const char* key_name(int i) { return keys[i].name; }

// Returns the index of the name that equals the word. If there is none, returns -1 and writes an error message with the
// nearest name.
static int find_name_index(struct parser* p, struct word word, const char* kind, int n, const char* (*name)(int)) {
  int nearest = 0;
  for (int i = 0; i < n; ++i) {
    if (equals(word, name(i))) return i;
    if (edit_distance(word, name(i)) < edit_distance(word, name(nearest))) nearest = i;
  }
  char hint[64];
  snprintf(hint, sizeof hint, "the nearest is %s", name(nearest));
  fail_at(p, word.start, kind, word, hint);
  return -1;
}

static bool parse_number(struct parser* p, struct word word, size_t largest, size_t* number) {
  size_t value = 0;
  for (size_t i = 0; i < word.length; ++i) {
    const size_t digit = (size_t)(word.start[i] - '0');
    if (!isdigit((unsigned char)word.start[i]) || value > (largest - digit) / 10)
      return fail_at(p, word.start, "not a number", word, "");
    value = value * 10 + digit;
  }
  *number = value;
  return word.length > 0 || fail_at(p, word.start, "a number is missing", word, "");
}

static bool parse_value(struct parser* p, const struct key* key, struct limits* limits) {
  const struct word word = next_word(p, ",;");
  size_t* value = (size_t*)((char*)limits + key->offset);
  if (key->offset == offsetof(struct limits, single_copy_from) && equals(word, "never")) {
    *value = SINGLE_COPY_NEVER;
    return true;
  }
  if (!parse_number(p, word, SIZE_MAX - 1, value)) return false;
  char hint[64];
  snprintf(hint, sizeof hint, "the least is %zu", key->minimum);
  return *value >= key->minimum || fail_at(p, word.start, "too small", word, hint);
}

// Parses key=value,key=value.
static bool parse_limits(struct parser* p, struct limits* limits) {
  unsigned seen = 0;
  for (;; ++p->at) {
    const struct word name = next_word(p, "=,;");
    const int i = find_name_index(p, name, "unknown key", KEYS, key_name);
    if (i < 0) return false;
    if (seen & 1u << i) return fail_at(p, name.start, "a second", name, "");
    if (*p->at != '=') return fail_at(p, p->at, "no value for", name, "");
    ++p->at;
    seen |= 1u << i;
    if (!parse_value(p, &keys[i], limits)) return false;
    if (*p->at != ',') return true;
  }
}

// Parses DISTANCE:key=value,key=value.
static bool parse_rule(struct parser* p, struct rules* rules) {
  const struct word name = next_word(p, ":;");
  const int distance = find_name_index(p, name, "unknown distance", DISTANCES, distance_name);
  if (distance < 0) return false;
  if (rules->has_rule[distance]) return fail_at(p, name.start, "a second rule for", name, "");
  if (*p->at != ':') return fail_at(p, p->at, "no limits for", name, "");
  ++p->at;
  rules->has_rule[distance] = true;
  return parse_limits(p, &rules->limits[distance]);
}

// Parses RANK-RANK:DISTANCE.
static bool parse_pair(struct parser* p, struct rules* rules) {
  size_t a, b;
  const struct word first = next_word(p, "-:;");
  if (!parse_number(p, first, UINT32_MAX, &a)) return false;
  if (*p->at != '-') return fail_at(p, p->at, "no second rank after", first, "");
  ++p->at;
  const struct word second = next_word(p, ":;");
  if (!parse_number(p, second, UINT32_MAX, &b)) return false;
  if (a == b) return fail_at(p, second.start, "a rank and itself,", second, "");
  if (*p->at != ':') return fail_at(p, p->at, "no distance for ranks that end with", second, "");
  ++p->at;
  const struct word name = next_word(p, ";");
  const int distance = find_name_index(p, name, "unknown distance", DISTANCES, distance_name);
  if (distance < 0) return false;
  struct pair* more = realloc(rules->pairs, (rules->n_pairs + 1) * sizeof *more);
  if (!more) return fail_at(p, first.start, "no memory for", first, "");
  rules->pairs = more;
  more[rules->n_pairs++] = (struct pair){(uint32_t)(a < b ? a : b), (uint32_t)(a < b ? b : a), distance};
  return true;
}

// Calls `item` for each part of the text between semicolons, until it returns false. Returns whether it never did.
static bool parse_each(struct parser* p, struct rules* rules, bool (*item)(struct parser*, struct rules*)) {
  while (*p->at) {
    if (!item(p, rules)) return false;
    if (*p->at == ';') ++p->at;
  }
  return true;
}

static int compare_pairs(const void* a, const void* b) {
  const struct pair *x = a, *y = b;
  if (x->low != y->low) return x->low < y->low ? -1 : 1;
  return x->high < y->high ? -1 : x->high > y->high;
}

bool rules_parse(struct rules* rules, const char* text, char* error, size_t error_size) {
  struct parser p = {text, text, error, error_size};
  return parse_each(&p, rules, parse_rule);
}

bool rules_parse_pairs(struct rules* rules, const char* text, char* error, size_t error_size) {
  struct parser p = {text, text, error, error_size};
  if (!parse_each(&p, rules, parse_pair)) return false;
  if (rules->n_pairs) qsort(rules->pairs, rules->n_pairs, sizeof *rules->pairs, compare_pairs);
  for (size_t i = 1; i < rules->n_pairs; ++i)
    if (compare_pairs(&rules->pairs[i - 1], &rules->pairs[i]) == 0) {
      snprintf(error, error_size, "ranks %u-%u are given twice", rules->pairs[i].low, rules->pairs[i].high);
      return false;
    }
  return true;
}

void rules_free(struct rules* rules) {
  free(rules->pairs);
  memset(rules, 0, sizeof *rules);
}

bool rules_are_empty(const struct rules* rules) {
  for (int d = 0; d < DISTANCES; ++d)
    if (rules->has_rule[d]) return false;
  return true;
}

bool rules_have_class(const struct rules* rules, int class_index) {
  return class_index == DEFAULT_CLASS || rules->has_rule[class_index];
}

// Returns the distance for Open MPI's locality flags. As in src/topology/distance.hpp, a NUMA node may span packages,
// and two ranks in different packages are not same-numa.
static int distance_of_locality(uint16_t locality) {
  if (locality & (OPAL_PROC_ON_CORE | OPAL_PROC_ON_HWTHREAD)) return same_core;
  if (locality & OPAL_PROC_ON_L2CACHE) return shared_l2;
  if (locality & OPAL_PROC_ON_L3CACHE) return shared_l3;
  if (!(locality & OPAL_PROC_ON_SOCKET)) return same_node;
  return locality & OPAL_PROC_ON_NUMA ? same_numa : same_package;
}

int rules_class_of(const struct rules* rules, uint32_t mine, uint32_t peer, uint16_t locality) {
  const struct pair wanted = {mine < peer ? mine : peer, mine < peer ? peer : mine, 0};
  const struct pair* pair =
      rules->n_pairs ? bsearch(&wanted, rules->pairs, rules->n_pairs, sizeof wanted, compare_pairs) : NULL;
  const int distance = pair ? pair->distance : distance_of_locality(locality);
  return rules->has_rule[distance] ? distance : DEFAULT_CLASS;
}

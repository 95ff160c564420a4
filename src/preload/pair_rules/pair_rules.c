#include "preload/pair_rules/pair_rules.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char* const distance_names[NUM_DISTANCES] = {NEARFIELD_EACH_DISTANCE(NEARFIELD_DISTANCE_NAME)};

struct limit_key_entry {
  enum limit_key key;
  const char* name;
  size_t offset_in_limits;  // in struct limits
  size_t min_bytes;         // in bytes; Open MPI's headers require this much
};
static const struct limit_key_entry limit_keys[] = {
    {KEY_EAGER_LIMIT, "eager_limit", offsetof(struct limits, eager_limit), 256},
    {KEY_MAX_SEND_SIZE, "max_send_size", offsetof(struct limits, max_send_size), 1024},
    {KEY_SINGLE_COPY_FROM, "single_copy_from", offsetof(struct limits, single_copy_from), 0},
};
enum { NUM_LIMIT_KEYS = sizeof limit_keys / sizeof limit_keys[0] };

struct parser {
  const char *text, *position;
  unsigned keys;  // that rules may have
  char* error;
  size_t error_size;
};

struct word {
  const char* text;
  size_t length;
};

// Writes the parser's error message: `problem`, the word, the position of `where` and a hint. Returns false.
static bool report_error_at(struct parser* parser, const char* where, const char* problem, struct word word,
                            const char* hint) {
  snprintf(parser->error, parser->error_size, "%s '%.*s' at character %d%s%s", problem, (int)word.length, word.text,
           (int)(where - parser->text) + 1, *hint ? ", " : "", hint);
  return false;
}

// Returns the word from the present position up to one of the separators or the end of the text, and moves the position
// behind the word.
static struct word take_word(struct parser* parser, const char* separators) {
  struct word word = {parser->position, strcspn(parser->position, separators)};
  parser->position += word.length;
  return word;
}

static bool word_equals(struct word word, const char* name) {
  return strlen(name) == word.length && strncmp(word.text, name, word.length) == 0;
}

// Returns the edit distance of a word and a name of at most 63 characters.
static size_t edit_distance(struct word word, const char* name) {
  size_t row[64], n = strlen(name);
  for (size_t j = 0; j <= n; ++j) row[j] = j;
  for (size_t i = 0; i < word.length; ++i) {
    size_t diagonal = row[0]++;
    for (size_t j = 1; j <= n; ++j) {
      const size_t change = diagonal + (word.text[i] != name[j - 1]);
      diagonal = row[j];
      row[j] = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
      if (change < row[j]) row[j] = change;
    }
  }
  return row[n];
}

// Returns the index of the name that equals the word. If there is none, returns -1 and writes an error message with the
// nearest name. `names` may have gaps, which are NULL.
static int find_name_index(struct parser* parser, struct word word, const char* problem, const char* const* names,
                           int n) {
  const char* nearest_name = NULL;
  for (int i = 0; i < n; ++i) {
    if (!names[i]) continue;
    if (word_equals(word, names[i])) return i;
    if (!nearest_name || edit_distance(word, names[i]) < edit_distance(word, nearest_name)) nearest_name = names[i];
  }
  char hint[64];
  snprintf(hint, sizeof hint, "the nearest is %s", nearest_name);
  report_error_at(parser, word.text, problem, word, hint);
  return -1;
}

static int find_distance(struct parser* parser, struct word name) {
  return find_name_index(parser, name, "unknown distance", distance_names, NUM_DISTANCES);
}

static int find_key(struct parser* parser, struct word name) {
  const char* names[NUM_LIMIT_KEYS];
  for (int i = 0; i < NUM_LIMIT_KEYS; ++i) names[i] = parser->keys & limit_keys[i].key ? limit_keys[i].name : NULL;
  return find_name_index(parser, name, "unknown key", names, NUM_LIMIT_KEYS);
}

static bool parse_number(struct parser* parser, struct word word, size_t max_value, size_t* number) {
  size_t value = 0;
  for (size_t i = 0; i < word.length; ++i) {
    const size_t digit = (size_t)(word.text[i] - '0');
    if (!isdigit((unsigned char)word.text[i]) || value > (max_value - digit) / 10)
      return report_error_at(parser, word.text, "not a number", word, "");
    value = value * 10 + digit;
  }
  *number = value;
  return word.length > 0 || report_error_at(parser, word.text, "a number is missing", word, "");
}

static bool parse_value(struct parser* parser, const struct limit_key_entry* entry, struct limits* limits) {
  const struct word word = take_word(parser, ",;");
  size_t* value = (size_t*)((char*)limits + entry->offset_in_limits);
  if (entry->key == KEY_SINGLE_COPY_FROM && word_equals(word, "never")) {
    *value = SINGLE_COPY_NEVER;
    return true;
  }
  if (!parse_number(parser, word, SIZE_MAX - 1, value)) return false;
  char hint[64];
  snprintf(hint, sizeof hint, "the least is %zu", entry->min_bytes);
  return *value >= entry->min_bytes || report_error_at(parser, word.text, "too small", word, hint);
}

// Parses key=value,key=value.
static bool parse_limits(struct parser* parser, struct limits* limits) {
  unsigned seen_keys = 0;
  for (;; ++parser->position) {
    const struct word name = take_word(parser, "=,;");
    const int i = find_key(parser, name);
    if (i < 0) return false;
    if (seen_keys & 1u << i) return report_error_at(parser, name.text, "a second", name, "");
    if (*parser->position != '=') return report_error_at(parser, parser->position, "no value for", name, "");
    ++parser->position;
    seen_keys |= 1u << i;
    if (!parse_value(parser, &limit_keys[i], limits)) return false;
    if (*parser->position != ',') return true;
  }
}

// Parses DISTANCE:key=value,key=value.
static bool parse_rule(struct parser* parser, struct pair_rules* rules) {
  const struct word name = take_word(parser, ":;");
  const int distance = find_distance(parser, name);
  if (distance < 0) return false;
  if (rules->has_rule[distance]) return report_error_at(parser, name.text, "a second rule for", name, "");
  if (*parser->position != ':') return report_error_at(parser, parser->position, "no limits for", name, "");
  ++parser->position;
  rules->has_rule[distance] = true;
  return parse_limits(parser, &rules->limits[distance]);
}

// Parses RANK-RANK:DISTANCE.
static bool parse_pair(struct parser* parser, struct pair_rules* rules) {
  size_t a, b;
  const struct word first = take_word(parser, "-:;");
  if (!parse_number(parser, first, UINT32_MAX, &a)) return false;
  if (*parser->position != '-') return report_error_at(parser, parser->position, "no second rank after", first, "");
  ++parser->position;
  const struct word second = take_word(parser, ":;");
  if (!parse_number(parser, second, UINT32_MAX, &b)) return false;
  if (a == b) return report_error_at(parser, second.text, "a rank and itself,", second, "");
  if (*parser->position != ':')
    return report_error_at(parser, parser->position, "no distance for ranks that end with", second, "");
  ++parser->position;
  const struct word name = take_word(parser, ";");
  const int distance = find_distance(parser, name);
  if (distance < 0) return false;
  struct given_pair* more_pairs =
      (struct given_pair*)realloc(rules->given_pairs, (rules->num_given_pairs + 1) * sizeof *more_pairs);
  if (!more_pairs) return report_error_at(parser, first.text, "no memory for", first, "");
  rules->given_pairs = more_pairs;
  const struct given_pair pair = {(uint32_t)(a < b ? a : b), (uint32_t)(a < b ? b : a), distance};
  more_pairs[rules->num_given_pairs++] = pair;
  return true;
}

// Calls `parse_item` for each part of the text between semicolons, until a call returns false. Returns whether all
// calls returned true.
static bool parse_all_items(struct parser* parser, struct pair_rules* rules,
                            bool (*parse_item)(struct parser*, struct pair_rules*)) {
  while (*parser->position) {
    if (!parse_item(parser, rules)) return false;
    if (*parser->position == ';') ++parser->position;
  }
  return true;
}

static int compare_pairs(const void* a, const void* b) {
  const struct given_pair *x = (const struct given_pair*)a, *y = (const struct given_pair*)b;
  if (x->low_rank != y->low_rank) return x->low_rank < y->low_rank ? -1 : 1;
  return x->high_rank < y->high_rank ? -1 : x->high_rank > y->high_rank;
}

bool parse_rules(struct pair_rules* rules, unsigned keys, const char* text, char* error, size_t error_size) {
  struct parser parser = {text, text, keys, error, error_size};
  return parse_all_items(&parser, rules, parse_rule);
}

bool parse_given_pairs(struct pair_rules* rules, const char* text, char* error, size_t error_size) {
  struct parser parser = {text, text, 0, error, error_size};
  if (!parse_all_items(&parser, rules, parse_pair)) return false;
  if (rules->num_given_pairs)
    qsort(rules->given_pairs, rules->num_given_pairs, sizeof *rules->given_pairs, compare_pairs);
  for (size_t i = 1; i < rules->num_given_pairs; ++i)
    if (compare_pairs(&rules->given_pairs[i - 1], &rules->given_pairs[i]) == 0) {
      snprintf(error, error_size, "ranks %u-%u are given twice", rules->given_pairs[i].low_rank,
               rules->given_pairs[i].high_rank);
      return false;
    }
  return true;
}

void free_rules(struct pair_rules* rules) {
  free(rules->given_pairs);
  memset(rules, 0, sizeof *rules);
}

bool are_rules_empty(const struct pair_rules* rules) {
  for (int d = 0; d < NUM_DISTANCES; ++d)
    if (rules->has_rule[d]) return false;
  return true;
}

bool has_class(const struct pair_rules* rules, int class_index) {
  return class_index == DEFAULT_CLASS || rules->has_rule[class_index];
}

int class_of_pair(const struct pair_rules* rules, uint32_t own_rank, uint32_t peer_rank, int distance) {
  const struct given_pair searched_pair = {own_rank < peer_rank ? own_rank : peer_rank,
                                           own_rank < peer_rank ? peer_rank : own_rank, 0};
  if (rules->num_given_pairs) {
    const void* pair =
        bsearch(&searched_pair, rules->given_pairs, rules->num_given_pairs, sizeof searched_pair, compare_pairs);
    if (pair) distance = ((const struct given_pair*)pair)->distance;
  }
  return distance < NUM_DISTANCES && rules->has_rule[distance] ? distance : DEFAULT_CLASS;
}

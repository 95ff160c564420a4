/* Command-line parsing for the examples in C and C++: `--name value` and `--name`, with defaults. */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns the word after `--name` on the command line, or `otherwise`. */
static inline const char* text_argument(int argc, char** argv, const char* name, const char* otherwise) {
  for (int i = 1; i + 1 < argc; ++i)
    if (strcmp(argv[i], name) == 0) return argv[i + 1];
  return otherwise;
}

/* Returns the whole number after `--name`, or `otherwise`. Ends the program if the word is not a number or is less than
 * `least`. */
static inline long number_argument(int argc, char** argv, const char* name, long otherwise, long least) {
  const char* text = text_argument(argc, argv, name, NULL);
  if (!text) return otherwise;
  char* end = NULL;
  const long value = strtol(text, &end, 10);
  if (end == text || *end != '\0' || value < least) {
    fprintf(stderr, "error: %s must be a whole number from %ld on, not '%s'\n", name, least, text);
    exit(2);
  }
  return value;
}

static inline int flag_argument(int argc, char** argv, const char* name) {
  for (int i = 1; i < argc; ++i)
    if (strcmp(argv[i], name) == 0) return 1;
  return 0;
}

/* Ends the program if a word of the command line is neither in `flags` nor in `valued`; both lists end with NULL. */
static inline void check_arguments(int argc, char** argv, const char* const* valued, const char* const* flags) {
  for (int i = 1; i < argc; ++i) {
    int known = 0;
    for (const char* const* name = flags; *name; ++name) known = known || strcmp(argv[i], *name) == 0;
    for (const char* const* name = valued; *name; ++name)
      if (strcmp(argv[i], *name) == 0 && i + 1 < argc) known = 2;
    if (!known) {
      fprintf(stderr, "error: '%s' is not understood, or lacks its value. There are:", argv[i]);
      for (const char* const* name = valued; *name; ++name) fprintf(stderr, " %s VALUE", *name);
      for (const char* const* name = flags; *name; ++name) fprintf(stderr, " %s", *name);
      fprintf(stderr, "\n");
      exit(2);
    }
    if (known == 2) ++i;
  }
}

// SPDX-License-Identifier: Apache-2.0
//
// The one grammar of verbs: words and options in any order, -- ends the options, letters may stand together (-it). A verb
// states its options in tables; they are read, explained, suggested and completed from there.
//
// One process runs one verb, so tables point to what a verb's file keeps in static variables.
#ifndef CMD_GRAMMAR_H
#define CMD_GRAMMAR_H

#include "base/str.h"
#include "cmd/option.h"
#include "cmd/verb.h"

#define GRAMMAR_GROUPS 4

struct grammar {
    const char *synopsis; // lines that start with the verb: "get KIND [NAME…]"
    const char *text;     // what it does, in a few lines
    const char *examples; // lines to try
    const struct option_group *groups[GRAMMAR_GROUPS]; // NULL: no more
    struct option_texts *words;  // what is not an option; NULL: there are none
    struct option_texts *behind; // what stands behind --; NULL: words
};

// grammar_read reads a command line. Returns VERB_OK, or VERB_USAGE after a line about what is wrong and what was meant.
int grammar_read(const char *verb, const struct grammar *g, int argc, char **argv);

// grammar_help adds what `dray VERB --help` says.
void grammar_help(const struct grammar *g, struct sbuf *out);

// verb_flags gives the flags of any verb, those with a grammar and those with a text only. help and choices may be NULL; value says
// whether one follows, as far as that is known.
struct verb_flag {
    struct str name, letter;
    const char *help, *choices;
    bool value;
};
typedef void (*verb_flag_fn)(void *arg, const struct verb_flag *flag);
void verb_flags(const struct verb *v, verb_flag_fn each, void *arg);

#endif

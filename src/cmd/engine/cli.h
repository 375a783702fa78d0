// SPDX-License-Identifier: Apache-2.0
//
// The command-line engine. A verb is a table: name, summary, synopsis, text, examples, options,
// subverbs and the function to run. Parsing, help, completion, config files and manual pages come
// from the tables alone.
//
// One process runs one verb, so tables point to static variables of the verb's file. A verb runs
// after the whole command line has been read; the engine frees lists of words and values when it
// returns.
#ifndef CMD_ENGINE_CLI_H
#define CMD_ENGINE_CLI_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "base/vec.h"

enum {
    VERB_OK = 0,    // done
    VERB_NO = 1,    // the answer is no: invalid, not found, refused
    VERB_USAGE = 2, // wrong command line or config file
};

#define CLI_GROUPS 6
#define CLI_MOST   INT32_MAX // upper bound of numbers without a bound of their own

struct cli_texts VEC(const char *);

// An option. It has one target: text, many, number, size, decimal, duration_ns, flag or take.
struct cli_option {
    const char *name;       // "--namespace"
    const char *letter;     // "-n", or NULL
    const char *value_name; // NULL: VALUE
    const char *help;       // NULL: hidden
    const char **text;
    struct cli_texts *many; // may be repeated
    int64_t *number;
    size_t *size;
    double *decimal;
    int64_t *duration_ns; // 300ms, 1.5s, 2m, 1h
    bool *flag;           // --name or --name=true; off: --name sets it to false
    bool off;
    // take receives a value itself; NULL stands for the missing value of an optional one. With a
    // flag it is called after the flag is set. May be repeated if `repeats` is set.
    int (*take)(const struct cli_option *o, const char *value, struct err *err);
    int64_t least,
        most; // of number, size, decimal (most has to be set) and duration_ns (0: no bound)
    const char *choices;  // the only values, separated by spaces
    const char *suggest;  // for completion, the verb checks; a word that ends in = continues
    const char *names;    // for completion: names of this kind (cli_program.names)
    const char *alias;    // hidden second name
    const char *needs;    // valid only together with one of these options, separated by spaces
    const char *excludes; // invalid together with any of these options, separated by spaces
    bool required;
    bool optional; // the value may be left out: --agent or --agent=NAME
    bool greedy;   // words that follow the value are values as well: -f FILE FILE
    bool repeats;
};

struct cli_group {
    const char *title;
    const struct cli_option *options;
    size_t n;
};

#define CLI_GROUP(title_, table)                                       \
    {                                                                  \
        .title = (title_), .options = (table), .n = array_len((table)) \
    }

enum cli_chapter {
    CLI_CLUSTER,
    CLI_DEVICES,
    CLI_PLANNING,
    CLI_OBJECTS,
    CLI_NODE,
    CLI_PROGRAM,
    CLI_DEVELOPERS, // shown by `dray help all` only
    CLI_CHAPTERS,
};

// A verb, or a subverb of one. Texts are paragraphs separated by empty lines and are filled to the
// width of the terminal; lines that begin with two spaces are kept.
struct cli_verb {
    const char *name;
    const char *summary;  // one line, imperative: "wait for a condition"
    const char *synopsis; // lines that follow the name; NULL: made of the subverbs
    const char *text;
    const char *examples; // lines to try
    enum cli_chapter chapter;
    bool everyday;                              // listed by `dray help` without all
    const struct cli_group *groups[CLI_GROUPS]; // NULL ends
    const struct cli_verb *const *subverbs;     // NULL ends; groups and run are theirs
    // Words that are not options: at least and at most so many (most 0: no bound) of what `word`
    // names.
    struct cli_texts *words;
    const char *word;
    size_t words_least, words_most;
    const char *word_choices; // for completion
    const char *word_names;   // for completion: names of this kind (cli_program.names)
    const char *kubectl;      // flags that kubectl has and this verb does not, separated by spaces
    bool kinds;               // the first word is a kind
    bool dashed_words;        // a word with a space may begin with a dash: an expression
    bool config;              // has --config FILE
    struct cli_texts *behind; // words that follow --; NULL: words
    // For verbs whose words and options are one sentence: each word, and each --NAME VALUE that is
    // no option.
    int (*take_word)(const char *word, struct err *err);
    int (*take_unknown)(struct str name, const char *value, struct err *err);
    // check looks at all values before run; its error is a usage error. May be NULL.
    int (*check)(struct err *err);
    int (*run)(void); // one of VERB_*
};

struct cli_program {
    const struct cli_verb *const *verbs; // sorted by name
    size_t n;
    const struct cli_group *leading; // options that may precede the verb
    const char *version;
    void (*begin)(void); // before a verb runs
    // names gives the names of a kind for completion, each by add; it may ask a cluster. May be
    // NULL.
    void (*names)(struct str kind, void (*add)(void *ctx, struct str name), void *ctx);
};

// cli_main reads the command line, runs the verb and returns the exit status.
int cli_main(const struct cli_program *program, int argc, char **argv);

// cli_verb_find: NULL when there is none of that name. cli_subverb_find looks below a verb.
const struct cli_verb *cli_verb_find(const struct cli_program *program, struct str name);
const struct cli_verb *cli_subverb_find(const struct cli_verb *v, struct str name);

// cli_read reads the arguments of a verb into its variables (argv[0] is its name) and, if --config
// names one, its file: flags win. *ret is the verb or its subverb. Returns 0 or -ERR_INVALID.
// cli_done frees what was read.
int cli_read(const struct cli_verb *v, int argc, char **argv, const struct cli_verb **ret,
             struct err *err) MUST_USE;
void cli_done(void);

// cli_given returns whether an option is on the command line or in the config file. cli_given_in
// gives the first option of a group that is; NULL: none.
bool cli_given(const char *name);
const char *cli_given_in(const struct cli_group *g);

// cli_usage_error prints one line about a wrong command line and returns VERB_USAGE.
int cli_usage_error(const char *verb, const char *what);

// cli_option_set sets an option from text (NULL: no value was given). Returns 0 or -ERR_INVALID
// with a message that names the option and what it accepts.
int cli_option_set(const struct cli_option *o, const char *value, struct err *err) MUST_USE;

// cli_option_find looks for a long name, an alias or a letter among the options of a verb.
// cli_option_nearest gives the name that is probably meant; empty: none.
const struct cli_option *cli_option_find(const struct cli_verb *v, struct str name);
struct str cli_option_nearest(const struct cli_verb *v, struct str name);

// cli_option_has_value: all but flags. cli_option_wants_value: those whose value cannot be left
// out.
bool cli_option_has_value(const struct cli_option *o);
bool cli_option_wants_value(const struct cli_option *o);

// cli_group_at gives the option groups of a verb in turn, that of --config included; NULL: no more.
const struct cli_group *cli_group_at(const struct cli_verb *v, size_t i);

// cli_duration reads a duration. Returns 0 or -ERR_INVALID.
int cli_duration(const char *text, int64_t *ret_ns, struct err *err) MUST_USE;

// cli_help_verb adds the page of a verb (path: its name, or that of verb and subverb),
// cli_help_program the list of verbs, for a terminal of so many columns; 0: no terminal.
void cli_help_verb(const struct cli_verb *v, const char *path, size_t columns, struct sbuf *out);
void cli_help_program(const struct cli_program *p, bool all, size_t columns, struct sbuf *out);

// cli_man_verb adds a manual page in troff; NULL: the page of the program itself. cli_man_write
// writes all pages into a directory, which is made if it does not exist.
void cli_man_verb(const struct cli_program *p, const struct cli_verb *v, struct sbuf *out);
int cli_man_write(const struct cli_program *p, const char *dir, struct err *err) MUST_USE;

// cli_complete adds candidates for the last of n words that follow the program's name, a line each:
// word, tab, description. Nothing: the shell completes names of files.
void cli_complete(const struct cli_program *p, const char *const *words, size_t n,
                  struct sbuf *out);

#endif

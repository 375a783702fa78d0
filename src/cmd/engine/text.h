// SPDX-License-Identifier: Apache-2.0
//
// What help and manual pages share: texts of the tables in pieces. Private to the engine.
#ifndef CMD_ENGINE_TEXT_H
#define CMD_ENGINE_TEXT_H

#include "cmd/engine/cli.h"

extern const char *const cli_chapters[CLI_CHAPTERS]; // their titles

// cli_text_next takes the next paragraph of a text as one line, or a line that is kept as it is.
// False: no more.
bool cli_text_next(struct str *rest, struct sbuf *out, bool *ret_verbatim);

// cli_text_add_synopsis adds the lines of a synopsis; those of the subverbs, with the name of the
// verb, where it has none of its own. cli_text_add_option adds "--name VALUE".
void cli_text_add_synopsis(struct sbuf *out, const struct cli_verb *v);
void cli_text_add_option(struct sbuf *out, const struct cli_option *o);

#endif

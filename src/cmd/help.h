// SPDX-License-Identifier: Apache-2.0
//
// Help on a terminal. Texts of help are written for a hundred columns; on a narrower terminal paragraphs are filled anew and options
// keep their columns.
#ifndef CMD_HELP_H
#define CMD_HELP_H

#include <stddef.h>

#include "base/str.h"

// help_fit adds a text of help for so many columns; 0, or enough of them: as it is.
void help_fit(struct sbuf *out, struct str text, size_t columns);

#endif

// SPDX-License-Identifier: Apache-2.0
//
// Log options of all daemons: --log-level and --log-format.
#ifndef CMD_RUN_LOGGING_H
#define CMD_RUN_LOGGING_H

#include "base/log.h"
#include "cmd/engine/cli.h"

extern const struct cli_group logging_group;

// logging_start writes records to standard error from now on, in the format of --log-format or else
// in this one. Returns 0, or -ERR_INVALID when --log-level cannot be read.
int logging_start(enum log_format format, struct err *err) MUST_USE;

#endif

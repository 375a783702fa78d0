// SPDX-License-Identifier: Apache-2.0
//
// Log options of all daemons. Programs that a cluster runs log JSON unless told otherwise, programs
// that a person starts log text.
#include "cmd/run/logging.h"

#include <stdio.h>
#include <string.h>

#include "base/banned.h"

static struct {
    const char *format, *levels;
} args = {.levels = "info"};

static const struct cli_option logging_options[] = {
    {"--log-format", NULL, "FORMAT",
     "log as json or text; default: json for components of a cluster, else text",
     .text = &args.format, .choices = "json text"},
    {"--log-level", NULL, "LEVELS",
     "log error, warn, info (default) or debug; also by module: info,store=debug",
     .text = &args.levels},
};
const struct cli_group logging_group = CLI_GROUP("Log options", logging_options);

static void logging_write_stderr(void *ctx, enum log_level level, struct str record)
{
    (void)ctx;
    (void)level;
    (void)fwrite(record.p, 1, record.n, stderr);
}

int logging_start(enum log_format format, struct err *err)
{
    if (args.format)
        format = strcmp(args.format, "json") == 0 ? LOG_FORMAT_JSON : LOG_FORMAT_TEXT;
    log_configure(logging_write_stderr, NULL, format, NULL);
    int r = log_set_levels(str_z(args.levels), err);
    return r < 0 ? err_wrap(err, "--log-level") : 0;
}

// SPDX-License-Identifier: Apache-2.0
//
// Config files: options of a verb from YAML or JSON. Private to the engine.
#ifndef CMD_ENGINE_CONFIG_H
#define CMD_ENGINE_CONFIG_H

#include "cmd/engine/cli.h"

// cli_config_read sets the options that a file names, except those that skip names as on the
// command line; each option that it sets is passed to set. A value is a string, a number, true or
// false; a list for options that may be repeated or take values separated by commas; a map of
// switches for options such as --feature-gates. Strings live in arena. Returns 0 or a negative code
// with file, position and field.
struct cli_config_ops {
    bool (*skip)(void *arg, const struct cli_option *o);
    void (*set)(void *arg, const struct cli_option *o);
    void *arg;
};
int cli_config_read(const char *path, const struct cli_verb *v, const struct cli_config_ops *ops,
                    struct arena *arena, struct err *err) MUST_USE;

#endif

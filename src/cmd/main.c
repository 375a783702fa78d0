// SPDX-License-Identifier: Apache-2.0
//
// The verb table. A verb is one file in this folder; main finds it, hands it the arguments behind
// its name, and turns its answer into an exit status: 0 good, 1 the answer is no, 2 wrong usage.
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cmd/verb.h"
#include "cmd/version.h"

#include "base/banned.h"

static int verb_help(int argc, char **argv);

static int verb_version(int argc, char **argv)
{
    (void)argv;
    if (argc > 1)
        return verb_usage_error("version", "takes no arguments");
    puts("dray " DRAY_VERSION);
    return VERB_OK;
}

static const struct verb verbs[] = {
    {"cel", verb_cel, "try a CEL expression on devices, or check it"},
    {"convert", verb_convert, "write objects in another API version or format"},
    {"explain", verb_explain, "say what a kind or a field means"},
    {"help", verb_help, "show this page"},
    {"validate", verb_validate, "check objects as the API server does"},
    {"version", verb_version, "print the version"},
};

int verb_usage_error(const char *verb, const char *what)
{
    (void)fprintf(stderr, "dray %s: %s\nTry 'dray help'.\n", verb, what);
    return VERB_USAGE;
}

static int verb_help(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    puts("dray: Kubernetes Dynamic Resource Allocation\n\nUsage: dray VERB [ARGUMENTS]\n");
    for (size_t i = 0; i < array_len(verbs); i++)
        printf("  %-10s %s\n", verbs[i].name, verbs[i].help);
    return VERB_OK;
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "help";
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        name = "help";
    if (strcmp(name, "--version") == 0)
        name = "version";
    for (size_t i = 0; i < array_len(verbs); i++)
        if (strcmp(verbs[i].name, name) == 0)
            return verbs[i].run(argc > 1 ? argc - 1 : argc, argc > 1 ? argv + 1 : argv);
    (void)fprintf(stderr, "dray: unknown verb '%s'\nTry 'dray help'.\n", name);
    return VERB_USAGE;
}

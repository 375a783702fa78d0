// SPDX-License-Identifier: Apache-2.0
//
// The verb table. A verb is one file in this folder; main finds it, hands it the arguments behind
// its name, and turns its answer into an exit status: 0 good, 1 the answer is no, 2 wrong usage.
#include <stdbool.h>
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
    {"agent", verb_agent, "make this machine a node that runs pods", agent_usage},
    {"alloc", verb_alloc, "allocate devices to claims, problem by problem", alloc_usage},
    {"backup", verb_backup, "copy the database of a running server", backup_usage},
    {"bench", verb_bench, "load for any API server: scheduling, requests", bench_usage},
    {"cdi", verb_cdi, "list, inspect, check and apply CDI specs", cdi_usage},
    {"cel", verb_cel, "try a CEL expression on devices, or check it", cel_usage},
    {"conformance", verb_conformance, "check a cluster: DRA and AI conformance, with evidence",
     conformance_usage},
    {"controllers", verb_controllers, "run DRA's controllers on any Kubernetes", controllers_usage},
    {"convert", verb_convert, "write objects in another API version or format", convert_usage},
    {"driver", verb_driver, "drivers for network interfaces and simulated hardware", driver_usage},
    {"explain", verb_explain, "say what a kind or a field means", explain_usage},
    {"help", verb_help, "show this page, or how a verb is called", "dray help [VERB]"},
    {"kubelet-stub", verb_kubelet_stub, "call DRA drivers as kubelet does", kubelet_stub_usage},
    {"netns-hook", verb_netns_hook, "put a claim's interface into a pod (for runtimes)",
     netns_hook_usage},
    {"replay", verb_replay, "replay a trace of a cluster: how full does it get", replay_usage},
    {"scheduler", verb_scheduler, "run the scheduler on any Kubernetes", scheduler_usage},
    {"server", verb_server, "run a Kubernetes API server", server_usage},
    {"plan", verb_plan, "say where pods and claims would land, and what if", plan_usage},
    {"up", verb_up, "start a whole cluster with simulated nodes", up_usage},
    {"validate", verb_validate, "check objects as the API server does", validate_usage},
    {"version", verb_version, "print the version", "dray version"},
    {"why", verb_why, "say why a pod or claim does not fit, and what would help", why_usage},
};

static const struct verb *find_verb(const char *name)
{
    for (size_t i = 0; i < array_len(verbs); i++)
        if (strcmp(verbs[i].name, name) == 0)
            return &verbs[i];
    return NULL;
}

int verb_usage_error(const char *verb, const char *what)
{
    (void)fprintf(stderr, "dray %s: %s\nTry 'dray help %s'.\n", verb, what, verb);
    return VERB_USAGE;
}

static int unknown_verb(const char *name)
{
    (void)fprintf(stderr, "dray: unknown verb '%s'\nTry 'dray help'.\n", name);
    return VERB_USAGE;
}

static int print_usage(const struct verb *v)
{
    printf("dray %s: %s\n\n%s\n", v->name, v->help, v->usage);
    return VERB_OK;
}

static int verb_help(int argc, char **argv)
{
    if (argc > 1) {
        const struct verb *v = find_verb(argv[1]);
        return v ? print_usage(v) : unknown_verb(argv[1]);
    }
    puts("dray: Kubernetes Dynamic Resource Allocation\n\nUsage: dray VERB [ARGUMENTS]\n");
    for (size_t i = 0; i < array_len(verbs); i++)
        printf("  %-12s %s\n", verbs[i].name, verbs[i].help);
    puts("\n'dray help VERB' tells how a verb is called.");
    return VERB_OK;
}

static bool asks_for_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "help";
    if (asks_for_help(name))
        name = "help";
    if (strcmp(name, "--version") == 0)
        name = "version";
    const struct verb *v = find_verb(name);
    if (!v)
        return unknown_verb(name);
    if (argc == 3 && asks_for_help(argv[2]))
        return print_usage(v);
    return v->run(argc > 1 ? argc - 1 : argc, argc > 1 ? argv + 1 : argv);
}

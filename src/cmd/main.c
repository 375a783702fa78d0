// SPDX-License-Identifier: Apache-2.0
//
// The verb table. A verb is one file in this folder; main finds it, hands it the arguments behind
// its name, and turns its answer into an exit status: 0 good, 1 the answer is no, 2 wrong usage.
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/nearest.h"
#include "cmd/common.h"
#include "cmd/grammar.h"
#include "cmd/help.h"
#include "cmd/process.h"
#include "cmd/verb.h"
#include "cmd/version.h"
#include "view/term.h"

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
    {"agent", verb_agent, "make this machine a node that runs pods", agent_usage, NULL},
    {"alloc", verb_alloc, "allocate devices to claims, problem by problem", alloc_usage, NULL},
    {"apply", verb_apply, "make objects what files say", .grammar = &apply_grammar},
    {"backup", verb_backup, "copy the database of a running server", backup_usage, NULL},
    {"bench", verb_bench, "load for any API server: scheduling, requests", bench_usage, NULL},
    {"cdi", verb_cdi, "list, inspect, check and apply CDI specs", cdi_usage, NULL},
    {"cel", verb_cel, "try a CEL expression on devices, or check it", cel_usage, NULL},
    {"completion", verb_completion, "make a shell complete verbs and flags",
     .grammar = &completion_grammar},
    {"conformance", verb_conformance, "check a cluster: DRA and AI conformance, with evidence",
     conformance_usage, NULL},
    {"controllers", verb_controllers, "run DRA's controllers on any Kubernetes", controllers_usage,
     NULL},
    {"convert", verb_convert, "write objects in another API version or format", convert_usage,
     NULL},
    {"delete", verb_delete, "delete objects and wait until they are gone",
     .grammar = &delete_grammar},
    {"describe", verb_describe, "tell about objects in words, with their events",
     .grammar = &describe_grammar},
    {"doctor", verb_doctor, "find what is wrong with devices, and what to do",
     .grammar = &doctor_grammar},
    {"driver", verb_driver, "drivers for network interfaces and simulated hardware", driver_usage,
     NULL},
    {"exec", verb_exec, "run a command in a container", .grammar = &exec_grammar},
    {"explain", verb_explain, "say what a kind or a field means", explain_usage, NULL},
    {"free", verb_free, "say what is free, and how many more claims would fit",
     .grammar = &free_grammar},
    {"get", verb_get, "show objects of any kind", .grammar = &get_grammar},
    {"help", verb_help, "show this page, or how a verb is called", "dray help [VERB]", NULL},
    {"history", verb_history, "say what happened to a device or claim",
     .grammar = &history_grammar},
    {"join", verb_join, "make this machine a node of a cluster elsewhere",
     .grammar = &join_grammar},
    {"kubelet-stub", verb_kubelet_stub, "call DRA drivers as kubelet does", kubelet_stub_usage,
     NULL},
    {"logs", verb_logs, "what a container has written", .grammar = &logs_grammar},
    {"netns-hook", verb_netns_hook, "put a claim's interface into a pod (for runtimes)",
     netns_hook_usage, NULL},
    {"plan", verb_plan, "say where pods and claims would land, and what if", plan_usage, NULL},
    {"replay", verb_replay, "replay a trace of a cluster: how full does it get", replay_usage,
     NULL},
    {"request", verb_request, "make a claim, template or pod from words",
     .grammar = &request_grammar},
    {"sched-case", verb_sched_case, "answer scheduling questions in kube-scheduler's words",
     sched_case_usage, NULL},
    {"scheduler", verb_scheduler, "run the scheduler on any Kubernetes", scheduler_usage, NULL},
    {"server", verb_server, "run a Kubernetes API server", server_usage, NULL},
    {"snapshot", verb_snapshot, "save the state of devices as a file, or load it",
     .grammar = &snapshot_grammar},
    {"taint", verb_taint, "keep claims or pods off devices, telling whom it evicts",
     .grammar = &taint_grammar},
    {"token", verb_token, "make, list and delete tokens for machines that join",
     .grammar = &token_grammar},
    {"top", verb_top, "watch nodes, devices and pods that wait", .grammar = &top_grammar},
    {"topo", verb_topo, "show how near a node's devices are to each other",
     .grammar = &topo_grammar},
    {"untaint", verb_untaint, "take taints back", .grammar = &untaint_grammar},
    {"up", verb_up, "start a whole cluster with simulated nodes", up_usage, NULL},
    {"validate", verb_validate, "check objects as the API server does", validate_usage, NULL},
    {"version", verb_version, "print the version", "dray version", NULL},
    {"wait", verb_wait, "wait until objects are what one waits for", .grammar = &wait_grammar},
    {"who", verb_who, "say who has a device", .grammar = &who_grammar},
    {"why", verb_why, "say why a pod, claim or group waits, and what would help",
     .grammar = &why_grammar},
};

const struct verb *verb_table(size_t *ret_n)
{
    *ret_n = array_len(verbs);
    return verbs;
}

const struct verb *verb_find(const char *name)
{
    for (size_t i = 0; i < array_len(verbs); i++)
        if (strcmp(verbs[i].name, name) == 0)
            return &verbs[i];
    return NULL;
}

// --- What was meant ------------------------------------------------------------------------------

// The command line, for suggestions.
static struct {
    int argc;
    char **argv;
} line;

struct flag_search {
    struct nearest near;
    bool exact;
};

const char verb_no_sense[] = "these arguments make no sense";

static void try_flag(void *arg, const struct verb_flag *flag)
{
    struct flag_search *s = arg;
    s->exact = s->exact || str_eq(flag->name, s->near.word) || str_eq(flag->letter, s->near.word);
    if (flag->name.n > 2)
        nearest_try(&s->near, flag->name);
}

// meant_flag finds the first flag of the command line that the verb does not have, and something near it, if there is something.
static bool meant_flag(const struct verb *v, struct nearest *ret)
{
    for (int i = 2; i < line.argc && strcmp(line.argv[i], "--") != 0; i++) {
        struct str name, value;
        str_cut(str_z(line.argv[i]), '=', &name, &value);
        struct flag_search s = {.near = {.word = name}};
        if (!str_starts(name, STR("--")))
            continue;
        verb_flags(v, try_flag, &s);
        nearest_try(&s.near, STR("--help"));
        if (s.exact)
            continue;
        *ret = s.near;
        return true;
    }
    return false;
}

int verb_usage_error(const char *verb, const char *what)
{
    const struct verb *v = verb_find(verb);
    struct nearest near = {0};
    cleanup_sbuf struct sbuf text = {0};
    bool unknown = v && meant_flag(v, &near);
    sbuf_addf(&text, "dray %s: ", verb);
    if (unknown && strcmp(what, verb_no_sense) == 0)
        sbuf_addf(&text, "there is no flag '%.*s'", STR_ARG(near.word));
    else
        sbuf_addz(&text, what);
    if (unknown && near.best.n) {
        bool named = str_contains(sbuf_str(&text), near.word);
        sbuf_addf(&text, "; did you mean '%.*s'%s%.*s?", STR_ARG(near.best), named ? "" : " by ",
                  STR_ARG(named ? STR("") : near.word));
    }
    (void)fprintf(stderr, "%s ('dray help %s' says more)\n", text.p, verb);
    return VERB_USAGE;
}

static int unknown_verb(const char *name)
{
    struct nearest near = {.word = str_z(name)};
    for (size_t i = 0; i < array_len(verbs); i++)
        nearest_try(&near, str_z(verbs[i].name));
    if (name[0] == '-')
        (void)fprintf(
            stderr, "dray: which verb? '%s' alone asks nothing ('dray help' lists verbs)\n", name);
    else if (near.best.n)
        (void)fprintf(stderr, "dray: unknown verb '%s'; did you mean '%.*s'?\n", name,
                      STR_ARG(near.best));
    else
        (void)fprintf(stderr, "dray: unknown verb '%s' ('dray help' lists them)\n", name);
    return VERB_USAGE;
}

// --- Help ----------------------------------------------------------------------------------------

static int print_fitted(const struct sbuf *text)
{
    cleanup_sbuf struct sbuf out = {0};
    help_fit(&out, sbuf_str(text), view_term_of(STDOUT_FILENO, VIEW_AUTO).columns);
    (void)fwrite(out.p, 1, out.n, stdout);
    return fflush(stdout) == 0 ? VERB_OK : VERB_NO;
}

static int print_usage(const struct verb *v)
{
    cleanup_sbuf struct sbuf text = {0};
    sbuf_addf(&text, "dray %s: %s\n\n", v->name, v->help);
    if (v->grammar)
        grammar_help(v->grammar, &text);
    else
        sbuf_addf(&text, "%s\n", v->usage);
    return print_fitted(&text);
}

// The verbs as people look for them.
static const struct {
    const char *title, *names;
} chapters[] = {
    {"Devices", "free who top topo why plan history request taint untaint doctor snapshot"},
    {"Objects of any cluster", "get describe apply delete logs exec wait"},
    {"A cluster", "up join token server agent backup"},
    {"Parts of a cluster, on any Kubernetes", "scheduler controllers driver conformance bench"},
    {"Files", "validate cel convert explain alloc sched-case replay"},
    {"Nodes and drivers", "kubelet-stub cdi netns-hook"},
    {"The program", "completion help version"},
};

static void add_chapter(struct sbuf *out, const char *title, struct str names)
{
    sbuf_addf(out, "%s:\n", title);
    for (struct str name; names.n;) {
        (void)str_cut(names, ' ', &name, &names);
        for (size_t i = 0; i < array_len(verbs); i++)
            if (str_eqz(name, verbs[i].name))
                sbuf_addf(out, "  %-12s %s\n", verbs[i].name, verbs[i].help);
    }
    sbuf_addc(out, '\n');
}

static int verb_help(int argc, char **argv)
{
    if (argc > 1) {
        const struct verb *v = verb_find(argv[1]);
        return v ? print_usage(v) : unknown_verb(argv[1]);
    }
    cleanup_sbuf struct sbuf text = {0};
    sbuf_addz(&text,
              "dray: Kubernetes Dynamic Resource Allocation\n\nUsage: dray VERB [ARGUMENTS]\n\n");
    for (size_t i = 0; i < array_len(chapters); i++)
        add_chapter(&text, chapters[i].title, str_z(chapters[i].names));
    sbuf_addz(&text, "'dray VERB --help' tells how a verb is called.\n");
    return print_fitted(&text);
}

// asks_for_help looks for --help or -h among the options, wherever it stands.
static bool asks_for_help(int argc, char **argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
    return false;
}

// cluster_flag_words is how many words a flag takes that says which cluster is meant; 0 if it is none.
static int cluster_flag_words(const char *word)
{
    struct str name, value;
    bool has_value = str_cut(str_z(word), '=', &name, &value);
    for (size_t i = 0; i < common_cluster.n; i++) {
        const struct option *o = &common_cluster.options[i];
        if (str_eqz(name, o->name) || (o->letter && str_eqz(name, o->letter)))
            return has_value || !option_needs_value(o) ? 1 : 2;
    }
    return 0;
}

// verb_first moves the verb before such flags: kubectl takes them on either side, and so do people's aliases.
static void verb_first(int argc, char **argv)
{
    int at = 1;
    for (int words; at < argc && (words = cluster_flag_words(argv[at])) > 0;)
        at += words;
    if (at == 1 || at >= argc)
        return;
    char *verb = argv[at];
    memmove(argv + 2, argv + 1, (size_t)(at - 1) * sizeof(*argv));
    argv[1] = verb;
}

int main(int argc, char **argv)
{
    verb_first(argc, argv);
    const char *name = argc > 1 ? argv[1] : "help";
    if (asks_for_help(argc > 1, argv + 1))
        name = "help";
    if (strcmp(name, "--version") == 0)
        name = "version";
    const struct verb *v = verb_find(name);
    if (!v)
        return unknown_verb(name);
    if (argc > 2 && asks_for_help(argc - 2, argv + 2))
        return print_usage(v);
    process_begin();
    line.argc = argc;
    line.argv = argv;
    return v->run(argc > 1 ? argc - 1 : argc, argc > 1 ? argv + 1 : argv);
}

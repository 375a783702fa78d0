// SPDX-License-Identifier: Apache-2.0
//
// dray why: why does a pod or claim not fit, and what would help?
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "cmd/plan_args.h"
#include "cmd/verb.h"
#include "cmd/why_cluster.h"

#include "base/banned.h"

const char why_usage[] =
    "dray why [pod/|claim/][NAMESPACE/]NAME -f FILE... [--alone] [--policy P] [--node NODE]\n"
    "         [--features A,B] [-R] [-o json] [WHAT IF]\n\n"
    "dray why [pod/|claim/][NAMESPACE/]NAME [--data-dir DIR] [--unix PATH] [-o json]\n"
    "dray why [pod/|claim/][NAMESPACE/]NAME --kubeconfig FILE [--context NAME] [-o json]\n\n"
    "Without -f the scheduler of the running 'dray up' is asked (its folder: --data-dir, default\n"
    "~/.dray). With $KUBECONFIG, --kubeconfig or --context any Kubernetes is read, nothing is "
    "written, and the "
    "answer is what\n"
    "dray's scheduler would say of it, whoever schedules there. With files: what is before it in "
    "the files is placed first, as dray plan does; "
    "--alone: only what is\n"
    "allocated already counts. Exit status: 0 it fits or runs, 1 it does not, 2 wrong "
    "usage.\n\n" PLAN_OPTIONS_HELP;

static bool has_files(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strncmp(argv[i], "-f", 2) == 0 || strncmp(argv[i], "--filename", 10) == 0)
            return true;
    return false;
}

static void read_target(struct str target, struct why_question *q)
{
    struct str head;
    struct str rest;
    q->kind = STR("Pod");
    q->namespace = STR("default");
    q->name = target;
    if (str_cut(q->name, '/', &head, &rest) &&
        (str_eq(head, STR("pod")) || str_eq(head, STR("pods")) || str_eq(head, STR("po")))) {
        q->name = rest;
    } else if (str_cut(q->name, '/', &head, &rest) &&
               (str_eq(head, STR("claim")) || str_eq(head, STR("resourceclaim")) ||
                str_eq(head, STR("resourceclaims")))) {
        q->kind = STR("ResourceClaim");
        q->name = rest;
    }
    if (str_cut(q->name, '/', &head, &rest)) {
        q->namespace = head;
        q->name = rest;
    }
}

// choose_cluster takes the one that $KUBECONFIG names when the command line names none. The file that 'dray up' writes
// lies beside the socket of its scheduler, which knows more than its API tells.
static void choose_cluster(struct why_question *q, struct sbuf *folder)
{
    const char *file = getenv("KUBECONFIG"); // NOLINT(concurrency-mt-unsafe): nobody changes it
    if (q->data_dir || q->socket || q->kubeconfig || q->context || !file || !file[0])
        return;
    const char *slash = strrchr(file, '/');
    cleanup_sbuf struct sbuf socket = {0};
    if (slash)
        sbuf_addf(folder, "%.*s", (int)(slash - file), file);
    sbuf_addf(&socket, "%s/dray.sock", slash ? folder->p : ".");
    q->any_cluster = true;
    if (access(socket.p, F_OK) == 0)
        q->data_dir = slash ? folder->p : ".";
}

// ask_cluster reads the arguments of the form without files.
static int ask_cluster(int argc, char **argv)
{
    struct why_question q = {0};
    const char *target = NULL;
    const char *output = NULL;
    const char *namespace = NULL;
    const struct {
        const char *name;
        const char **to;
    } flags[] = {{"--data-dir", &q.data_dir},
                 {"--unix", &q.socket},
                 {"-o", &output},
                 {"-n", &namespace},
                 {"--output", &output},
                 {"--namespace", &namespace},
                 {"--kubeconfig", &q.kubeconfig},
                 {"--context", &q.context}};
    for (int i = 1; i < argc; i++) {
        size_t f = 0;
        while (f < array_len(flags) && strcmp(argv[i], flags[f].name) != 0)
            f++;
        if (f < array_len(flags) && i + 1 < argc)
            *flags[f].to = argv[++i];
        else if (argv[i][0] == '-' || target)
            return verb_usage_error("why", "these arguments make no sense without -f FILE");
        else
            target = argv[i];
    }
    if (!target)
        return verb_usage_error("why", "which pod or claim?");
    if (output && strcmp(output, "json") != 0)
        return verb_usage_error("why", "-o knows json");
    read_target(str_z(target), &q);
    if (namespace)
        q.namespace = str_z(namespace);
    q.json = output != NULL;
    cleanup_sbuf struct sbuf folder = {0};
    choose_cluster(&q, &folder);
    return why_cluster(&q);
}

int verb_why(int argc, char **argv)
{
    if (!has_files(argc, argv))
        return ask_cluster(argc, argv);
    struct plan_args a = {.verb = "why"};
    int r = plan_args_read(&a, argc, argv);
    if (r == VERB_OK && !a.target)
        r = verb_usage_error("why", "which pod or claim?");
    if (r == VERB_OK)
        r = plan_args_answer(&a);
    plan_args_done(&a);
    return r;
}

// SPDX-License-Identifier: Apache-2.0
//
// dray why: why does a pod, a claim or a group of pods wait, and what would help?
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/table.h"
#include "base/mem.h"
#include "cmd/common.h"
#include "cmd/devices/plan_args.h"
#include "cmd/verb.h"
#include "cmd/why/why_cluster.h"

#include "base/banned.h"

static struct {
    const char *data_dir, *socket;
    struct cli_texts words;
    int64_t fix;
    bool yes;
} args;

static int verb_why(void);
static int why_check(struct err *err);

static const struct cli_option why_options[] = {
    {"--output", "-o", "FORMAT", "print json; with -f also text, yaml or jsonpath='{.field}'",
     .text = &common.output, .suggest = "json"},
    {"--data-dir", NULL, "DIR", "ask the 'dray up' with this data directory; default ~/.dray",
     .text = &args.data_dir, .excludes = "--filename"},
    {"--unix", NULL, "PATH", "ask the server with this socket", .text = &args.socket,
     .excludes = "--filename"},
    {"--fix", NULL, "N",
     "carry out remedy N, after showing it; on a terminal it asks before it changes anything",
     .number = &args.fix, .least = 1, .most = 99, .excludes = "--filename"},
    {"--yes", "-y", NULL, "with --fix: do not ask", .flag = &args.yes, .needs = "--fix"},
    {"--alone", NULL, NULL, "ignore other pending pods and claims of the files",
     .flag = &plan_args.options.alone, .needs = "--filename"},
};
static const struct cli_group why_group = CLI_GROUP("Options", why_options);

const struct cli_verb why_verb = {
    .name = "why",
    .summary = "explain why something does not run and what would help",
    .chapter = CLI_PLANNING,
    .everyday = true,
    .synopsis = "why [KIND/][NAMESPACE/]NAME [OPTIONS]\n"
                "why KIND NAME [OPTIONS]\n"
                "why KIND/NAME --fix N [--yes]\n"
                "why [pod/|claim/][NAMESPACE/]NAME -f FILE… [OPTIONS]",
    .text = "Explains why a pod waits or does not run, what a claim waits for or who holds it, why "
            "a group, Deployment, ReplicaSet, StatefulSet, DaemonSet or Job does not run, why a "
            "node takes no pods or a device cannot be had: the cause in the first line, then what "
            "would help, best first, then details. KIND is pod (the default), claim, group, "
            "deploy, rs, sts, ds, job, node or device (DRIVER/POOL/DEVICE).\n\n"
            "Remedies for a pod that waits are proven: the scheduler has placed it with them, on "
            "the node in parentheses. --fix N carries out the one that is marked so.\n\n"
            "Asks the scheduler of the running 'dray up'. With $KUBECONFIG, --kubeconfig or "
            "--context it reads any Kubernetes "
            "and answers as dray's scheduler would, whichever scheduler runs there. With -f it "
            "reads files, and places what "
            "precedes the target in them first. Only --fix writes.\n\n"
            "Exit status: 0 it fits or runs, 1 it waits or does not run, 2 wrong usage.",
    .examples = "dray why trainer                 # a pod\n"
                "dray why trainer --fix 1         # and carry out the first remedy\n"
                "dray why claim/gpu -n team-a     # a ResourceClaim\n"
                "dray why group/crew              # a gang\n"
                "dray why deploy/web              # a Deployment; also job/, sts/, ds/, rs/\n"
                "dray why node/gpu-1\n"
                "dray why device/gpu.example.com/gpu-1/gpu-0\n"
                "dray why trainer -f cluster.yaml pods.yaml",
    .groups = {&why_group, &plan_file_group, &plan_change_group, &common_cluster},
    .words = &args.words,
    .word = "KIND/NAME",
    .words_least = 1,
    .words_most = 2,
    .check = why_check,
    .word_names = "pods",
    .run = verb_why,
};

static int why_check(struct err *err)
{
    if (plan_args.files.n)
        return plan_args_format(err);
    const char *given = cli_given_in(&plan_file_group);
    given = given ? given : cli_given_in(&plan_change_group);
    if (given)
        return err_set(err, ERR_INVALID, "%s needs --filename", given);
    return !common.output || strcmp(common.output, "json") == 0
               ? 0
               : err_set(err, ERR_INVALID, "--output is json without -f, not '%s'", common.output);
}

// --- What is asked about -------------------------------------------------------------------------

// why_find_kind reads a kind as kubectl does; those of this program have short names of their own.
static bool why_find_kind(struct str word, struct str *ret)
{
    static const char *const kinds[] = {"Pod",        "ResourceClaim", "PodGroup",
                                        "Deployment", "ReplicaSet",    "StatefulSet",
                                        "DaemonSet",  "Job",           "Node"};
    static const char *const names[][2] = {
        {"claim", "resourceclaim"},
        {"claims", "resourceclaim"},
        {"group", "podgroup"},
        {"groups", "podgroup"},
        {"deploy", "deployment"},
        {"rs", "replicaset"},
        {"sts", "statefulset"},
        {"ds", "daemonset"},
        {"po", "pod"},
        {"no", "node"},
    };
    if (str_eqz(word, "device") || str_eqz(word, "devices")) {
        *ret = STR("Device");
        return true;
    }
    for (size_t i = 0; i < array_len(names); i++)
        if (str_eqz(word, names[i][0]))
            word = str_z(names[i][1]);
    const struct api_kind *k = api_kind_by_name(word);
    for (size_t i = 0; k && i < array_len(kinds); i++)
        if (str_eqz(k->kind, kinds[i])) {
            *ret = str_z(kinds[i]);
            return true;
        }
    return false;
}

static int no_kind(struct str word)
{
    cleanup_sbuf struct sbuf text = {0};
    sbuf_addf(
        &text,
        "'%.*s' is no pod, claim, podgroup, workload, node or device: only these are explained",
        STR_ARG(word));
    return cli_usage_error("why", text.p);
}

// read_target reads NAME, KIND/NAME, NAMESPACE/NAME, KIND/NAMESPACE/NAME, or KIND NAME.
static int read_target(struct why_question *q)
{
    const struct cli_texts *w = &args.words;
    struct str head, rest;
    q->kind = STR("Pod");
    q->name = str_z(w->p[w->n - 1]);
    if (w->n == 2 && !why_find_kind(str_z(w->p[0]), &q->kind))
        return no_kind(str_z(w->p[0]));
    if (w->n == 1 && str_cut(q->name, '/', &head, &rest) && why_find_kind(head, &q->kind))
        q->name = rest;
    else if (w->n == 1 && str_cut(q->name, '/', &head, &rest) && api_kind_by_name(head))
        return no_kind(head);
    bool whole = str_eqz(q->kind, "Device") || str_eqz(q->kind, "Node"); // of no namespace
    if (!whole && str_cut(q->name, '/', &head, &rest)) {
        q->namespace = head;
        q->name = rest;
    }
    if (common.namespace && q->namespace.n && !str_eqz(q->namespace, common.namespace))
        return cli_usage_error("why", "the name has one namespace and -n another");
    if (common.namespace)
        q->namespace = str_z(common.namespace);
    return q->name.n ? VERB_OK : cli_usage_error("why", "the name is empty");
}

// choose_cluster takes the one that other verbs take, too. The file that 'dray up' writes lies
// beside the socket of its scheduler, which knows more than its API shows.
static int choose_cluster(struct why_question *q, struct sbuf *folder, struct err *err)
{
    cleanup_kubeconfig struct kubeconfig config = {0};
    struct kubeconfig_target target;
    cleanup_sbuf struct sbuf socket = {0};
    if (q->data_dir || q->socket || q->kubeconfig || q->context)
        return 0;
    int r = common_find(&config, &target, err);
    if (r == -ERR_NOT_FOUND && !common_cluster_is_named())
        return 0; // none is configured: the socket's usual place may have one
    if (r < 0)
        return r;
    ptrdiff_t slash = str_rfind_char(target.file, '/');
    sbuf_add(folder, slash < 0 ? STR(".") : str_upto(target.file, (size_t)slash));
    sbuf_addf(&socket, "%s/dray.sock", folder->p);
    q->any_cluster = true;
    if (target.file.n && access(socket.p, F_OK) == 0)
        q->data_dir = folder->p;
    return 0;
}

static int why_ask_cluster(void)
{
    struct why_question q = {.data_dir = args.data_dir,
                             .socket = args.socket,
                             .kubeconfig = common.kubeconfig,
                             .context = common.context,
                             .color = common.color,
                             .fix = args.fix,
                             .yes = args.yes,
                             .json = common.output != NULL};
    int r = read_target(&q);
    if (r != VERB_OK)
        return r;
    cleanup_sbuf struct sbuf folder = {0};
    struct err err = {0};
    return choose_cluster(&q, &folder, &err) < 0 ? common_fail("why", &err) : why_cluster(&q);
}

// why_ask_files passes the target on as it is; kind and namespace that are given apart become parts
// of it.
static int why_ask_files(void)
{
    cleanup_sbuf struct sbuf target = {0};
    struct why_question q = {0};
    if (args.words.n == 1 && !common.namespace)
        return plan_args_answer("why", args.words.p[0]);
    int r = read_target(&q);
    if (r != VERB_OK)
        return r;
    if (!str_eqz(q.kind, "Pod") && !str_eqz(q.kind, "ResourceClaim"))
        return cli_usage_error("why", "-f answers for pods and claims only");
    sbuf_addf(&target, "%s/%.*s%s%.*s", str_eqz(q.kind, "ResourceClaim") ? "claim" : "pod",
              STR_ARG(q.namespace), q.namespace.n ? "/" : "", STR_ARG(q.name));
    return plan_args_answer("why", target.p);
}

static int verb_why(void)
{
    return plan_args.files.n ? why_ask_files() : why_ask_cluster();
}

// SPDX-License-Identifier: Apache-2.0
//
// dray why: why does a pod, a claim or a group of pods wait, and what would help?
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/table.h"
#include "base/mem.h"
#include "cmd/common.h"
#include "cmd/grammar.h"
#include "cmd/plan_args.h"
#include "cmd/verb.h"
#include "cmd/why_cluster.h"

#include "base/banned.h"

static struct {
    const char *data_dir, *socket;
    struct option_texts words;
    struct option_texts of_files; // options that make sense with -f alone
    bool of_files_flag;
} args;

static const struct option here_options[] = {
    {.name = "--data-dir",
     .value_name = "DIR",
     .text = &args.data_dir,
     .help = "the folder of a 'dray up' of this machine; default: ~/.dray"},
    {.name = "--unix",
     .value_name = "PATH",
     .text = &args.socket,
     .help = "the socket of its server"},
    {.name = "--output",
     .letter = "-o",
     .value_name = "json",
     .text = &common.output,
     .choices = "json",
     .help = "the whole answer for programs"},
};

// plan_args.c reads these.
static const struct option file_options[] = {
    {.name = "--filename",
     .letter = "-f",
     .value_name = "FILE…",
     .many = &args.of_files,
     .help = "objects in YAML, JSON or protobuf, a folder of them, or - for standard input;\n"
             "what is before the target in the files is placed first, as dray plan does"},
    {.letter = "-R",
     .name = "--recursive",
     .flag = &args.of_files_flag,
     .value = true,
     .help = "folders below folders, too"},
    {.name = "--alone",
     .flag = &args.of_files_flag,
     .value = true,
     .help = "only what is allocated already counts"},
    {.name = "--policy",
     .value_name = "NAME",
     .many = &args.of_files,
     .choices = "pack spread first",
     .help = "which node and devices of those that fit: pack, spread or first"},
    {.name = "--node", .value_name = "NODE", .many = &args.of_files, .help = "only this node"},
    {.name = "--features",
     .value_name = "A,B",
     .many = &args.of_files,
     .help = "more features: names, gates, or all"},
    {.name = "--drain",
     .value_name = "NODE",
     .many = &args.of_files,
     .help = "what if nothing ran there any more?"},
    {.name = "--taint",
     .value_name = "DRIVER[/POOL[/DEVICE]]=KEY[=VALUE]:EFFECT",
     .many = &args.of_files,
     .help = "what if these devices were tainted?"},
    {.name = "--without",
     .value_name = "[NAMESPACE/]CLAIM",
     .many = &args.of_files,
     .help = "what if the claim and its pods were gone?"},
    {.name = "--add-node",
     .value_name = "like=NODE[,count=N][,name=PREFIX]",
     .many = &args.of_files,
     .help = "what if there were more nodes?"},
};

static const struct option_group here_group = OPTION_GROUP("On this machine", here_options);
static const struct option_group file_group =
    OPTION_GROUP("On files, without a cluster", file_options);

const struct grammar why_grammar = {
    .synopsis = "why [pod/|claim/|podgroup/]NAME [-n NAMESPACE] [-o json]\n"
                "why pod|claim|podgroup NAME [-n NAMESPACE] [-o json]\n"
                "why [pod/|claim/][NAMESPACE/]NAME -f FILE…",
    .text =
        "Says why a pod waits, what a claim waits for or who has it, or why a group of pods does "
        "not start:\nthe cause in the first line, then what would help, then each node's "
        "answer.\n\n"
        "The scheduler of the running 'dray up' is asked. With $KUBECONFIG, --kubeconfig or "
        "--context any\nKubernetes is read, nothing is written, and the answer is what dray's "
        "scheduler would say of it,\nwhoever schedules there. Exit status: 0 it fits or runs, 1 "
        "it waits, 2 wrong usage.",
    .examples = "dray why trainer                 # a pod\n"
                "dray why claim/gpu -n team-a     # a ResourceClaim\n"
                "dray why podgroup crew           # a gang\n"
                "dray why trainer -f cluster.yaml pods.yaml",
    .groups = {&common_cluster, &here_group, &file_group},
    .words = &args.words,
};

static bool has_files(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strncmp(argv[i], "-f", 2) == 0 || strncmp(argv[i], "--filename", 10) == 0)
            return true;
    return false;
}

// --- What is asked about -------------------------------------------------------------------------

// kind_of reads a kind as kubectl does; claims have a short name here.
static bool kind_of(struct str word, struct str *ret)
{
    static const char *const kinds[] = {"Pod", "ResourceClaim", "PodGroup"};
    if (str_eqz(word, "claim") || str_eqz(word, "claims"))
        word = STR("resourceclaim");
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
    sbuf_addf(&text, "'%.*s' is no pod, claim or podgroup: only these wait for something",
              STR_ARG(word));
    return verb_usage_error("why", text.p);
}

// read_target reads NAME, KIND/NAME, NAMESPACE/NAME, KIND/NAMESPACE/NAME, or KIND NAME.
static int read_target(struct why_question *q)
{
    const struct option_texts *w = &args.words;
    struct str head, rest;
    q->kind = STR("Pod");
    if (w->n == 0)
        return verb_usage_error("why", "which pod, claim or podgroup?");
    q->name = str_z(w->p[w->n - 1]);
    if (w->n > 2)
        return verb_usage_error("why", "one at a time: [KIND] NAME");
    if (w->n == 2 && !kind_of(str_z(w->p[0]), &q->kind))
        return no_kind(str_z(w->p[0]));
    if (w->n == 1 && str_cut(q->name, '/', &head, &rest) && kind_of(head, &q->kind))
        q->name = rest;
    else if (w->n == 1 && str_cut(q->name, '/', &head, &rest) && api_kind_by_name(head))
        return no_kind(head);
    if (str_cut(q->name, '/', &head, &rest)) {
        q->namespace = head;
        q->name = rest;
    }
    if (common.namespace && q->namespace.n && !str_eqz(q->namespace, common.namespace))
        return verb_usage_error("why", "the name has one namespace and -n another");
    if (common.namespace)
        q->namespace = str_z(common.namespace);
    return q->name.n ? VERB_OK : verb_usage_error("why", "which pod, claim or podgroup?");
}

// choose_cluster takes the one that other verbs take, too. The file that 'dray up' writes lies beside the socket of its
// scheduler, which knows more than its API tells.
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

static int ask_cluster(int argc, char **argv)
{
    int r = grammar_read("why", &why_grammar, argc, argv);
    struct why_question q = {.data_dir = args.data_dir,
                             .socket = args.socket,
                             .kubeconfig = common.kubeconfig,
                             .context = common.context,
                             .color = common.color};
    if (r == VERB_OK)
        r = read_target(&q);
    if (r == VERB_OK && (args.of_files.n || args.of_files_flag))
        r = verb_usage_error("why", "these arguments make no sense without -f FILE");
    if (r == VERB_OK && common.output && strcmp(common.output, "json") != 0)
        r = verb_usage_error("why", "-o knows json");
    q.json = common.output != NULL;
    if (r != VERB_OK)
        return r;
    cleanup_sbuf struct sbuf folder = {0};
    struct err err = {0};
    return choose_cluster(&q, &folder, &err) < 0 ? common_fail("why", &err) : why_cluster(&q);
}

int verb_why(int argc, char **argv)
{
    if (!has_files(argc, argv)) {
        int r = ask_cluster(argc, argv);
        vec_done(&args.words);
        vec_done(&args.of_files);
        return r;
    }
    struct plan_args a = {.verb = "why"};
    int r = plan_args_read(&a, argc, argv);
    if (r == VERB_OK && !a.target)
        r = verb_usage_error("why", "which pod or claim?");
    if (r == VERB_OK)
        r = plan_args_answer(&a);
    plan_args_done(&a);
    return r;
}

// SPDX-License-Identifier: Apache-2.0
//
// dray conformance: whether a cluster does what Kubernetes promises about devices.
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/verb.h"
#include "codec/json_writer.h"
#include "codec/yaml.h"
#include "conform/conform.h"
#include "driver/files.h"

#include "base/banned.h"

const char conformance_usage[] =
    "dray conformance [--kubeconfig FILE] [--context NAME] [FLAGS]\n"
    "dray conformance --list\n\n"
    "Checks a cluster, dray's or any other of Kubernetes 1.34 or later: what its API does with "
    "the\n"
    "kinds of Dynamic Resource Allocation, and Kubernetes AI conformance as far as a program can\n"
    "judge it. Each check has evidence: requests, objects, logs, with times "
    "(docs/conformance.md).\n"
    "What it creates is in a namespace of its own, or has its label, and is removed, also after\n"
    "Ctrl-C.\n\n"
    "--only NAME[,NAME…]  some checks; a name may end in '*'\n"
    "--image IMAGE        for pods: with sh, ls, env, sort, find; default busybox:stable\n"
    "--class NAME         DeviceClass of accelerators; default: one that is found\n"
    "--claim FILE         instead: a ResourceClaim or ResourceClaimTemplate\n"
    "--nic-claim FILE     the same for a network device\n"
    "--metrics PATH       where metrics of accelerators are, as a path of the API server\n"
    "--namespace NAME     default: a new one; one that exists is left\n"
    "--timeout SECONDS    for a pod to run; default 120\n"
    "--keep               leave everything that was created\n"
    "--strict             what SHOULD be counts as what MUST be\n"
    "--evidence           show it in the table, too\n"
    "-o json|yaml         instead of the table; --junit FILE: besides, for CI\n\n"
    "Exit status: 0 nothing that must be failed, 1 something did, 2 the cluster or the command "
    "line\n"
    "cannot be used.";

struct args {
    struct conform_options conform;
    const char *output, *junit, *claim, *nic_claim, *timeout;
    bool list, strict, evidence;
};

static void on_signal(int signal)
{
    (void)signal;
    conform_interrupt();
}

static int fail(const char *what)
{
    (void)fprintf(stderr, "dray conformance: %s\n", what);
    return VERB_USAGE;
}

static bool parse(struct args *a, int argc, char **argv)
{
    static const struct option options[] = {{"kubeconfig", required_argument, NULL, 'k'},
                                            {"context", required_argument, NULL, 'x'},
                                            {"only", required_argument, NULL, 'y'},
                                            {"image", required_argument, NULL, 'i'},
                                            {"class", required_argument, NULL, 'c'},
                                            {"claim", required_argument, NULL, 'C'},
                                            {"nic-claim", required_argument, NULL, 'N'},
                                            {"metrics", required_argument, NULL, 'm'},
                                            {"namespace", required_argument, NULL, 'n'},
                                            {"timeout", required_argument, NULL, 't'},
                                            {"keep", no_argument, NULL, 'K'},
                                            {"strict", no_argument, NULL, 'S'},
                                            {"evidence", no_argument, NULL, 'e'},
                                            {"junit", required_argument, NULL, 'j'},
                                            {"list", no_argument, NULL, 'l'},
                                            {"output", required_argument, NULL, 'o'},
                                            {0}};
    struct conform_options *o = &a->conform;
    const char **const texts[] = {
        ['k'] = &o->kubeconfig, ['x'] = &o->context, ['y'] = &o->only,      ['i'] = &o->image,
        ['c'] = &o->class_name, ['C'] = &a->claim,   ['N'] = &a->nic_claim, ['m'] = &o->metrics,
        ['n'] = &o->namespace,  ['t'] = &a->timeout, ['j'] = &a->junit,     ['o'] = &a->output};
    bool *const flags[] = {
        ['K'] = &o->keep, ['S'] = &a->strict, ['e'] = &a->evidence, ['l'] = &a->list};
    optind = 1;
    opterr = 0; // one line is enough, and it is ours
    // NOLINTNEXTLINE(concurrency-mt-unsafe): before any thread starts
    for (int c; (c = getopt_long(argc, argv, "o:", options, NULL)) != -1;) {
        size_t i = (size_t)c;
        if (i < array_len(texts) && texts[i])
            *texts[i] = optarg;
        else if (i < array_len(flags) && flags[i])
            *flags[i] = true;
        else
            return false;
    }
    return optind == argc;
}

// The spec of a claim in a file: of a ResourceClaim, of a template, or the spec itself.
static int read_spec(const char *path, struct arena *arena, struct str *ret, struct err *err)
{
    cleanup_sbuf struct sbuf bytes = {0};
    cleanup_sbuf struct sbuf out = {0};
    cleanup_json_doc struct json_doc doc = {0};
    struct json_writer w = {.out = &out};
    int code = files_read(path, (size_t)1 << 20, &bytes, err);
    if (code == 0)
        code = yaml_parse(sbuf_str(&bytes), NULL, &doc, err);
    if (code < 0)
        return err_wrap(err, "%s", path);
    const yyjson_val *at = doc.root;
    for (int i = 0; i < 3 && at && !json_get(at, STR("devices")); i++)
        at = json_get(at, STR("spec"));
    if (!at)
        return err_set(err, ERR_INVALID, "%s holds no claim: spec.devices is not there", path);
    json_write_value(&w, at);
    *ret = arena_str(arena, sbuf_str(&out));
    return 0;
}

static void progress(void *arg, const char *id, const enum conform_result *result, const char *why)
{
    static const char *const words[] = {
        [CONFORM_PASS] = "pass", [CONFORM_FAIL] = "FAIL", [CONFORM_SKIP] = "skip"};
    (void)arg;
    if (!result)
        (void)fprintf(stderr, "%-28s ", id);
    else
        (void)fprintf(stderr, "%s%s%s\n", words[*result], why && *why ? ": " : "", why ? why : "");
}

static int write_file(const char *path, struct str text)
{
    struct err err = {0};
    if (files_replace(NULL, path, text, &err) == 0)
        return VERB_OK;
    return fail(err.msg);
}

static int show(const struct args *a, const struct conform_report *r)
{
    cleanup_sbuf struct sbuf out = {0};
    cleanup_sbuf struct sbuf junit = {0};
    if (a->output)
        conform_write_json(r, &out);
    else
        conform_write_table(r, a->evidence, &out);
    if (a->output && strcmp(a->output, "yaml") == 0) {
        cleanup_json_doc struct json_doc doc = {0};
        struct err err;
        if (json_parse(sbuf_str(&out), &(struct json_options){.max_bytes = SIZE_MAX / 2}, &doc,
                       &err) != 0)
            return fail(err.msg);
        sbuf_clear(&out);
        yaml_write(doc.root, false, &out);
    }
    (void)fputs(out.p, stdout);
    (void)fflush(stdout);
    conform_write_junit(r, &junit);
    return a->junit ? write_file(a->junit, sbuf_str(&junit)) : VERB_OK;
}

static int run(struct args *a)
{
    cleanup_arena struct arena arena = {0};
    struct conform_report report;
    struct err err = {0};
    int code = a->claim ? read_spec(a->claim, &arena, &a->conform.claim_spec, &err) : 0;
    if (code == 0 && a->nic_claim)
        code = read_spec(a->nic_claim, &arena, &a->conform.nic_spec, &err);
    if (code != 0)
        return fail(err.msg);
    const struct sigaction action = {.sa_handler = on_signal};
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    if (isatty(STDERR_FILENO))
        a->conform.progress = progress;
    code = conform_run(&a->conform, &report, &err);
    int rc = code == 0 ? show(a, &report) : fail(err.msg);
    if (code == 0 && rc == VERB_OK &&
        (conform_count(&report, CONFORM_FAIL, !a->strict) > 0 || report.interrupted))
        rc = VERB_NO;
    conform_report_done(&report);
    return rc;
}

int verb_conformance(int argc, char **argv)
{
    struct args a = {.conform = {.image = "busybox:stable", .timeout_s = 120}};
    cleanup_sbuf struct sbuf names = {0};
    if (!parse(&a, argc, argv))
        return verb_usage_error("conformance", verb_no_sense);
    if (a.output && strcmp(a.output, "json") != 0 && strcmp(a.output, "yaml") != 0)
        return verb_usage_error("conformance", "-o is json or yaml");
    if (a.timeout && (str_to_i64(str_z(a.timeout), &a.conform.timeout_s) != 0 ||
                      a.conform.timeout_s < 1 || a.conform.timeout_s > 86400))
        return verb_usage_error("conformance", "--timeout wants a number of seconds");
    if (!a.list)
        return run(&a);
    conform_list(&names);
    (void)fputs(names.p, stdout);
    return VERB_OK;
}

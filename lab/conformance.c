// SPDX-License-Identifier: Apache-2.0
//
// dray conformance: whether a cluster does what Kubernetes promises about devices.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/common.h"
#include "cmd/verb.h"
#include "codec/json_writer.h"
#include "codec/yaml.h"
#include "lab/conform/conform.h"
#include "os/file.h"

#include "base/banned.h"

static struct args {
    struct conform_options conform;
    const char *output, *junit, *claim, *nic_claim;
    bool list, strict, evidence;
} args = {.conform = {.image = "busybox:stable", .timeout_s = 120}};

static int verb_conformance(void);

static const struct cli_option conformance_options[] = {
    {"--list", NULL, NULL, "list the checks", .flag = &args.list},
    {"--only", NULL, "NAME[,NAME…]", "run these checks; a name may end in '*'",
     .text = &args.conform.only},
    {"--image", NULL, "IMAGE",
     "run pods with this image, which has sh, ls, env, sort, find; default busybox:stable",
     .text = &args.conform.image},
    {"--class", NULL, "NAME", "use accelerators of this DeviceClass; default: one that is found",
     .text = &args.conform.class_name},
    {"--claim", NULL, "FILE", "use the ResourceClaim or ResourceClaimTemplate of a file instead",
     .text = &args.claim},
    {"--nic-claim", NULL, "FILE", "use the claim of a file for a network device",
     .text = &args.nic_claim},
    {"--metrics", NULL, "PATH", "read metrics of accelerators at this path of the API server",
     .text = &args.conform.metrics},
    {"--namespace", "-n", "NAME", "work in this namespace, which stays; default: a new one",
     .text = &args.conform.namespace},
    {"--timeout", NULL, "SECONDS", "wait this long for a pod to run; default 120",
     .number = &args.conform.timeout_s, .least = 1, .most = 86400},
    {"--keep", NULL, NULL, "keep everything that was created", .flag = &args.conform.keep},
    {"--strict", NULL, NULL, "treat SHOULD as MUST", .flag = &args.strict},
    {"--evidence", NULL, NULL, "show the evidence in the table", .flag = &args.evidence},
    {"--output", "-o", "FORMAT", "print json or yaml instead of the table", .text = &args.output,
     .choices = "json yaml"},
    {"--junit", NULL, "FILE", "write a JUnit report", .text = &args.junit},
};
static const struct cli_group conformance_group = CLI_GROUP("Options", conformance_options);

const struct cli_verb conformance_verb = {
    .name = "conformance",
    .summary = "check a cluster for DRA and AI conformance",
    .chapter = CLI_CLUSTER,
    .synopsis = "conformance [--kubeconfig FILE] [--context NAME] [OPTIONS]\nconformance --list",
    .text = "Checks a cluster, dray's or any other from Kubernetes 1.34 on: the API of Dynamic "
            "Resource Allocation, and "
            "Kubernetes AI conformance as far as a program can judge it. Each check has evidence: "
            "requests, objects, logs, with "
            "times (docs/reference/conformance.md). Created objects are in a namespace of their "
            "own or carry "
            "a label, and are removed, "
            "also after Ctrl-C.\n\n"
            "Exit status: 0 no mandatory check failed, 1 one failed, 2 the cluster or the command "
            "line cannot be used.",
    .examples = "dray conformance --context test\n"
                "dray conformance --only 'dra-*' -o json\n"
                "dray conformance --list",
    .groups = {&conformance_group, &common_connect},
    .run = verb_conformance,
};

static void conformance_on_signal(int signal)
{
    (void)signal;
    conform_interrupt();
}

static int conformance_fail(const char *what)
{
    (void)fprintf(stderr, "dray conformance: %s\n", what);
    return VERB_USAGE;
}

// The spec of a claim in a file: of a ResourceClaim, of a template, or the spec itself.
static int conformance_read_spec(const char *path, struct arena *arena, struct str *ret,
                                 struct err *err)
{
    cleanup_sbuf struct sbuf bytes = {0};
    cleanup_sbuf struct sbuf out = {0};
    cleanup_json_doc struct json_doc doc = {0};
    struct json_writer w = {.out = &out};
    int r = file_read(path, (size_t)1 << 20, &bytes, err);
    if (r == 0)
        r = yaml_parse(sbuf_str(&bytes), NULL, &doc, err);
    if (r < 0)
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

static void conformance_print_progress(void *arg, const char *id, const enum conform_result *result,
                                       const char *why)
{
    static const char *const words[] = {
        [CONFORM_PASS] = "pass", [CONFORM_FAIL] = "FAIL", [CONFORM_SKIP] = "skip"};
    (void)arg;
    if (!result)
        (void)fprintf(stderr, "%-28s ", id);
    else
        (void)fprintf(stderr, "%s%s%s\n", words[*result], why && *why ? ": " : "", why ? why : "");
}

static int conformance_write_file(const char *path, struct str text)
{
    struct err err = {0};
    if (file_replace_atomic(AT_FDCWD, path, text, 0644, &err) == 0)
        return VERB_OK;
    return conformance_fail(err.msg);
}

static int conformance_print_report(const struct args *a, const struct conform_report *r)
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
            return conformance_fail(err.msg);
        sbuf_clear(&out);
        yaml_write(doc.root, false, &out);
    }
    (void)fputs(out.p, stdout);
    (void)fflush(stdout);
    conform_write_junit(r, &junit);
    return a->junit ? conformance_write_file(a->junit, sbuf_str(&junit)) : VERB_OK;
}

static int conformance_run_checks(struct args *a)
{
    cleanup_arena struct arena arena = {0};
    struct conform_report report;
    struct err err = {0};
    int code = a->claim ? conformance_read_spec(a->claim, &arena, &a->conform.claim_spec, &err) : 0;
    if (code == 0 && a->nic_claim)
        code = conformance_read_spec(a->nic_claim, &arena, &a->conform.nic_spec, &err);
    if (code != 0)
        return conformance_fail(err.msg);
    const struct sigaction action = {.sa_handler = conformance_on_signal};
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    if (isatty(STDERR_FILENO))
        a->conform.progress = conformance_print_progress;
    code = conform_run(&a->conform, &report, &err);
    int rc = code == 0 ? conformance_print_report(a, &report) : conformance_fail(err.msg);
    if (code == 0 && rc == VERB_OK &&
        (conform_count(&report, CONFORM_FAIL, !a->strict) > 0 || report.interrupted))
        rc = VERB_NO;
    conform_report_done(&report);
    return rc;
}

static int verb_conformance(void)
{
    cleanup_sbuf struct sbuf names = {0};
    args.conform.kubeconfig = common.kubeconfig;
    args.conform.context = common.context;
    if (!args.list)
        return conformance_run_checks(&args);
    conform_list(&names);
    (void)fputs(names.p, stdout);
    return VERB_OK;
}

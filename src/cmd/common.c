// SPDX-License-Identifier: Apache-2.0
//
// Options that verbs share for clusters and output, and the functions that apply them.
#include "cmd/common.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/verb.h"
#include "view/text.h"

#include "base/banned.h"

struct common common;

#define OUTPUT_CHOICES "table wide json yaml name jsonpath="

static const struct cli_option cluster_options[] = {
    {"--namespace", "-n", "NAME", "use this namespace; default: the context's",
     .text = &common.namespace, .names = "namespaces"},
    {"--context", NULL, "NAME", "use this context of the kubeconfig; default: its current one",
     .text = &common.context},
    {"--kubeconfig", NULL, "FILE",
     "use this kubeconfig; default: $KUBECONFIG, ~/.kube/config, the 'dray up' of this machine",
     .text = &common.kubeconfig},
    {"--color", NULL, "WHEN",
     "use colors: auto (on a terminal, unless NO_COLOR is set), always, never",
     .text = &common.color, .choices = "auto always never"},
};

int common_take_dry_run(const struct cli_option *o, const char *value, struct err *err)
{
    static const char *const words[] = {"none", "false", "true", "client", "server"};
    for (size_t i = 0; value && i < array_len(words); i++)
        if (strcmp(value, words[i]) == 0) {
            common.dry_run = i > 1;
            return 0;
        }
    common.dry_run = true;
    return value
               ? err_set(err, ERR_INVALID, "%s is none, client or server, not '%s'", o->name, value)
               : 0;
}

static const struct cli_option connect_options[] = {
    {"--kubeconfig", NULL, "FILE",
     "use this kubeconfig; default: $KUBECONFIG, ~/.kube/config, the pod's service account",
     .text = &common.kubeconfig},
    {"--context", NULL, "NAME", "use this context of the kubeconfig; default: its current one",
     .text = &common.context},
};

static const struct cli_option list_options[] = {
    {"--all-namespaces", "-A", NULL, "use all namespaces", .flag = &common.all_namespaces},
    {"--selector", "-l", "LABELS", "select objects by labels: app=web,tier!=test",
     .text = &common.selector},
    {"--output", "-o", "FORMAT",
     "print table, wide, json, yaml, name or jsonpath='{.metadata.name}'", .text = &common.output,
     .suggest = OUTPUT_CHOICES},
    {"--watch", "-w", NULL, "continue with changes until Ctrl-C", .flag = &common.watch},
    {"--no-headers", NULL, NULL, "print tables without column names", .flag = &common.no_headers},
};

static const struct cli_option output_options[] = {
    {"--output", "-o", "FORMAT", "print table, wide, json, yaml or jsonpath='{.field}'",
     .text = &common.output, .suggest = OUTPUT_CHOICES},
};

const struct cli_group common_cluster = CLI_GROUP("Cluster options", cluster_options);
const struct cli_group common_connect = CLI_GROUP("Cluster options", connect_options);
const struct cli_group common_list = CLI_GROUP("List options", list_options);
const struct cli_group common_output = CLI_GROUP("Output options", output_options);

// own_kubeconfig adds the file that 'dray up' writes, if there is one.
static bool own_kubeconfig(struct sbuf *path)
{
    const char *home = getenv("HOME"); // NOLINT(concurrency-mt-unsafe): nothing sets it
    sbuf_addf(path, "%s/.dray/admin.kubeconfig", home && home[0] ? home : ".");
    return access(path->p, R_OK) == 0;
}

bool common_cluster_is_named(void)
{
    return common.kubeconfig || common.context || kubeconfig_env();
}

int common_find(struct kubeconfig *k, struct kubeconfig_target *ret, struct err *err)
{
    cleanup_sbuf struct sbuf own = {0};
    int r = kubeconfig_find(k, common.kubeconfig, common.context, ret, err);
    bool is_nothing = r == -ERR_NOT_FOUND && k->clusters.n == 0 && k->contexts.n == 0;
    if (!is_nothing || common_cluster_is_named())
        return r;
    if (!own_kubeconfig(&own))
        return err_set(
            err, ERR_NOT_FOUND,
            "there is no kubeconfig: give one with --kubeconfig or in KUBECONFIG, or start a "
            "cluster here with 'dray up'");
    return kubeconfig_find(k, own.p, NULL, ret, err);
}

int common_open(struct cluster *c, struct err *err)
{
    int r = common_find(&c->config, &c->target, err);
    return r < 0 ? r : cluster_open(c, err);
}

struct str common_namespace(const struct cluster *c)
{
    if (common.all_namespaces)
        return (struct str){0};
    return common.namespace ? str_z(common.namespace) : c->target.namespace;
}

int common_layout(struct view_layout *ret, struct err *err)
{
    enum view_when when = VIEW_AUTO;
    int r = view_when_parse(common.color, &when, err);
    if (r == 0)
        *ret = (struct view_layout){.term = view_term_of(STDOUT_FILENO, when),
                                    .no_headers = common.no_headers};
    return r;
}

int common_format(unsigned allowed, struct arena *arena, struct view_output *ret, struct err *err)
{
    return view_output_parse(common.output, allowed, arena, ret, err);
}

int common_print(struct str text, struct err *err)
{
    if ((text.n && fwrite(text.p, 1, text.n, stdout) != text.n) || fflush(stdout) != 0)
        return err_set(err, errno, "cannot write: %s", strerrordesc_np(errno));
    return 0;
}

// common_is_found: the shell finds this very program under its name.
static bool common_is_found(const char *self, struct str search)
{
    while (search.n) {
        cleanup_sbuf struct sbuf path = {0};
        struct str dir;
        char found[PATH_MAX];
        (void)str_cut(search, ':', &dir, &search);
        sbuf_addf(&path, "%.*s/dray", STR_ARG(dir));
        if (dir.n && access(path.p, X_OK) == 0)
            return realpath(path.p, found) && strcmp(found, self) == 0;
    }
    return false;
}

const char *common_program(void)
{
    static char self[PATH_MAX];
    const char *search = getenv("PATH"); // NOLINT(concurrency-mt-unsafe): nothing sets it
    if (!self[0]) {
        ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
        self[n > 0 ? n : 0] = '\0';
        if (n <= 0 || common_is_found(self, str_z(search ? search : "")))
            memcpy(self, "dray", sizeof("dray"));
    }
    return self;
}

int common_fail(const char *verb, const struct err *err)
{
    char text[DRAY_ERR_MSG_MAX + DRAY_ERR_PATH_MAX];
    cleanup_sbuf struct sbuf shown = {0};
    if (err->code == EPIPE)
        return VERB_NO; // who read it has seen enough
    err_text(err, text, sizeof(text));
    for (char *p = text; *p; p++)
        *p = *p == '\n' ? ' ' : *p;
    view_add_line(&shown, str_z(text));
    (void)fprintf(stderr, "dray %s: %s\n", verb, shown.n ? shown.p : "it did not work");
    return VERB_NO;
}

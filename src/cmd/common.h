// SPDX-License-Identifier: Apache-2.0
//
// What verbs that talk to a cluster take alike: which cluster, which namespace, which objects, how
// to show them.
#ifndef CMD_COMMON_H
#define CMD_COMMON_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/err.h"
#include "cmd/cluster.h"
#include "cmd/engine/cli.h"
#include "view/output.h"
#include "view/table.h"

// What the options below have set.
struct common {
    const char *kubeconfig, *context, *color; // common_cluster
    const char *namespace;                    // common_cluster
    const char *selector, *output;            // common_list
    bool all_namespaces, watch, no_headers;   // common_list
    bool dry_run;                             // COMMON_DRY_RUN
};

extern struct common common;

extern const struct cli_group common_cluster; // --kubeconfig --context -n --color
extern const struct cli_group common_connect; // --kubeconfig --context
extern const struct cli_group common_list;    // -A -l -o -w --no-headers
extern const struct cli_group common_output;  // -o alone, for verbs that show one thing

// COMMON_DRY_RUN is kubectl's --dry-run: the server judges the request and changes nothing, for
// client and server alike.
#define COMMON_DRY_RUN                                                                    \
    {                                                                                     \
        "--dry-run", NULL, "client|server", "send the request without changing anything", \
            .take = common_take_dry_run, .optional = true                                 \
    }
int common_take_dry_run(const struct cli_option *o, const char *value, struct err *err);

// common_cluster_is_named: --kubeconfig, --context or $KUBECONFIG say which cluster.
bool common_cluster_is_named(void);

// common_find decides which cluster a verb is about: --kubeconfig, else $KUBECONFIG, else
// ~/.kube/config, else a pod's own account, else the 'dray up' of this machine. The last one counts
// only where nothing is configured at all: a cluster that is named and cannot be found is an error.
// -ERR_NOT_FOUND: there is none. ret's texts live in k.
int common_find(struct kubeconfig *k, struct kubeconfig_target *ret, struct err *err) MUST_USE;

// common_open connects to the cluster that common_find finds. End with cluster_close in any case.
int common_open(struct cluster *c, struct err *err) MUST_USE;

// common_namespace is that of -n, else of the context. Empty with -A.
struct str common_namespace(const struct cluster *c);

// common_layout is how tables are to be written to standard output.
int common_layout(struct view_layout *ret, struct err *err) MUST_USE;

// common_format reads -o; see view_output_parse.
int common_format(unsigned allowed, struct arena *arena, struct view_output *ret,
                  struct err *err) MUST_USE;

// common_print writes a text to standard output, all of it, and at once: a watch is read by others.
// Returns 0 or -errno.
int common_print(struct str text, struct err *err) MUST_USE;

// common_program is how people start this program: dray if their PATH finds it, else its path.
const char *common_program(void);

// common_fail prints `dray VERB: MESSAGE`, one line, and returns VERB_NO. A reader that has gone is
// no news.
int common_fail(const char *verb, const struct err *err);

#endif

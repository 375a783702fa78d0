// SPDX-License-Identifier: Apache-2.0
//
// dray why on a running cluster.
#ifndef CMD_WHY_WHY_CLUSTER_H
#define CMD_WHY_WHY_CLUSTER_H

#include <stdbool.h>

#include "base/arena.h"

struct why_question {
    const char *socket;               // of the server; NULL: that of the data directory
    const char *data_dir;             // NULL: ~/.dray
    const char *kubeconfig, *context; // any cluster instead, if one is given
    bool any_cluster;     // that of $KUBECONFIG; with data_dir: if no scheduler answers there
    struct str kind;      // as the API names it; Device for a device
    struct str namespace; // empty: the context's
    struct str name;
    bool json;
    int64_t fix;        // remedy to carry out; 0: none
    bool yes;           // … without a question
    struct arena arena; // of texts that were found out
    const char *color;  // auto, always, never; NULL: auto
};

// why_cluster asks and prints. Returns one of VERB_*.
int why_cluster(const struct why_question *asked);

#endif

// SPDX-License-Identifier: Apache-2.0
//
// Explanations of what is not the scheduler's matter: pods on nodes, workloads, nodes, devices.
#ifndef CMD_WHY_WHY_OBJECT_H
#define CMD_WHY_WHY_OBJECT_H

#include "base/arena.h"
#include "cmd/cluster.h"
#include "cmd/why/why_cluster.h"
#include "codec/json.h"

// Where objects are read. Zeroed but for question, it is closed.
struct why_source {
    const struct why_question *question;
    struct cluster cluster;
    bool open, forbidden;
    int verdict; // of an answer that was printed already
    struct arena arena;
};

// why_source_open connects to the cluster that is asked about, once.
int why_source_open(struct why_source *s, struct err *err) MUST_USE;

// why_source_get reads a path of the API.
int why_source_get(struct why_source *s, const char *target, struct json_doc *ret,
                   struct err *err) MUST_USE;

// why_cluster_explain adds the explanation of a pod, claim or group as JSON, wherever it is in its
// life.
int why_cluster_explain(struct why_source *s, struct str kind, struct str namespace,
                        struct str name, struct sbuf *answer, struct err *err) MUST_USE;

// why_object_life explains a pod by its own status and events.
int why_object_life(struct why_source *s, struct str namespace, struct str name, struct sbuf *out,
                    struct err *err) MUST_USE;

// why_object_add_events puts the reason why a claim of the pod could not be created, which its
// events have, into the scheduler's explanation.
int why_object_add_events(struct str events, struct str namespace, struct sbuf *answer) MUST_USE;

// Explanations as JSON of a Deployment, Job and so on, of a node, of a device.
int why_workload(struct why_source *s, struct str kind, struct str namespace, struct str name,
                 struct sbuf *out, struct err *err) MUST_USE;
int why_node(struct why_source *s, struct str name, struct sbuf *out, struct err *err) MUST_USE;
int why_device(struct why_source *s, struct str name, struct sbuf *out, struct err *err) MUST_USE;

#endif

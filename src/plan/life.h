// SPDX-License-Identifier: Apache-2.0
//
// Where a pod is in its life, and what keeps it from running: bound, claims prepared, images,
// containers, ready. Read from the pod, its events and what it refers to; nothing is written.
#ifndef PLAN_LIFE_H
#define PLAN_LIFE_H

#include "base/str.h"
#include "codec/json.h"

// What a look at a pod reads of the cluster besides it. get reads one path of the API; false: there
// is no such object, or it may not be read.
struct life_source {
    bool (*get)(void *arg, const char *target, struct json_doc *ret);
    bool (*forbidden)(void *arg); // the last get failed for lack of permission
    void *arg;
    const yyjson_val *pod;
    int64_t now_s; // since 1970
};

// life_explain adds a JSON object like that of sched_explain: kind, name, state (running, ended,
// starting, failing, waiting), stage, node, cause, stages, lastEvent, remedies. Returns whether the
// pod runs or has ended well.
bool life_explain(const struct life_source *s, struct sbuf *out);

#endif

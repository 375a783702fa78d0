// SPDX-License-Identifier: Apache-2.0
//
// The audit policy: which requests are recorded, with how much of them. Read once from a file
// (audit.k8s.io/v1 Policy); no I/O here.
#ifndef SERVER_AUDIT_AUDIT_POLICY_H
#define SERVER_AUDIT_AUDIT_POLICY_H

#include <stdbool.h>
#include <stddef.h>

#include "api/types.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/vec.h"
#include "server/auth/rbac.h"

enum audit_level { AUDIT_NONE, AUDIT_METADATA, AUDIT_REQUEST, AUDIT_REQUEST_RESPONSE };
#define AUDIT_LEVELS 4

enum audit_stage {
    AUDIT_RECEIVED = 1 << 0,
    AUDIT_STARTED = 1 << 1,
    AUDIT_COMPLETE = 1 << 2,
    AUDIT_PANIC = 1 << 3,
};

struct audit_resources {
    struct str group; // "*": any
    struct api_str_array resources, names;
};

struct audit_rule {
    enum audit_level level;
    struct api_str_array users, groups, verbs, namespaces, urls;
    struct VEC(struct audit_resources) resources;
    unsigned omit_stages; // enum audit_stage
    bool omit_managed;
};

struct audit_policy {
    struct VEC(struct audit_rule) rules; // the first that matches decides
    unsigned omit_stages;
    bool omit_managed;
    struct arena arena;
};

// What a rule decides for a request.
struct audit_choice {
    enum audit_level level;
    unsigned omit_stages;
    bool omit_managed;
};

// audit_policy_parse reads a policy in YAML or JSON. Returns 0, or -ERR_INVALID or -ERR_BAD_REQUEST
// with the line or the field; *ret is then empty. audit_policy_done frees one.
int audit_policy_parse(struct str text, struct audit_policy *ret, struct err *err) MUST_USE;
void audit_policy_done(struct audit_policy *p);

// audit_policy_choose finds the rule for a request. Requests that no rule matches are not recorded.
struct audit_choice audit_policy_choose(const struct audit_policy *p, const struct access *q);

const char *audit_level_name(enum audit_level level);
const char *audit_stage_name(enum audit_stage stage);

#endif

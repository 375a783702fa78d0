// SPDX-License-Identifier: Apache-2.0
//
// What is known of a request that is recorded, and its text. Private to src/server.
#ifndef SERVER_AUDIT_AUDIT_EVENT_H
#define SERVER_AUDIT_AUDIT_EVENT_H

#include "api/types.h"
#include "base/vec.h"
#include "registry/registry.h"
#include "server/audit/audit_policy.h"

struct audit_object {
    struct str resource, namespace, name, uid, group, version, resource_version, subresource;
    bool set;
};

// Everything is in the exchange's arena.
struct audit_trail {
    struct audit_choice choice;
    struct arena *arena;
    struct str uri, verb, agent;
    struct registry_user user, impersonated;
    bool impersonates;
    struct VEC(struct str) sources;
    struct audit_object object;
    struct api_status *status;    // of an answer that is a Status
    struct str request, response; // JSON in one line
    struct sbuf pieces;           // of the response
    bool lost;                    // its pieces are not kept
    bool unknown;                 // the user could not be identified
    int64_t received_ns;
    int code; // 0: no answer yet
    struct VEC(struct registry_note) notes;
};

// audit_event_keep copies JSON to the trail: on one line, and without managed fields if the policy
// omits them.
struct str audit_event_keep(const struct audit_trail *t, struct str json);

// audit_event_write adds a line: the event of a stage.
void audit_event_write(struct audit_trail *t, enum audit_stage stage, struct str id, int64_t now_ns,
                       struct sbuf *out);

#endif

// SPDX-License-Identifier: Apache-2.0
//
// What operators and tenants write as policies: audit policies (files) and Pod Security labels.
// Every error has a text; what is accepted decides about any request; labels always give a policy,
// and what it is written as reads back as the same.
#include <assert.h>

#include "api/podsec.h"
#include "fuzz.h"
#include "server/audit/audit_policy.h"

#include "base/banned.h"

static void try_audit(struct str text)
{
    static const struct str groups[] = {STR_INIT("system:masters"), STR_INIT("a")};
    static const struct registry_user user = {
        .name = STR_INIT("a"), .groups = groups, .groups_len = 2};
    static const struct access questions[] = {
        {.user = &user, .verb = STR_INIT("get"), .path = STR_INIT("/healthz")},
        {.user = &user,
         .verb = STR_INIT("create"),
         .resource = STR_INIT("pods"),
         .subresource = STR_INIT("exec"),
         .namespace = STR_INIT("a"),
         .name = STR_INIT("b")},
        {.user = &user,
         .verb = STR_INIT("list"),
         .group = STR_INIT("apps"),
         .resource = STR_INIT("deployments")},
    };
    struct audit_policy p;
    struct err err = {0};
    int r = audit_policy_parse(text, &p, &err);
    assert(r == 0 ? p.rules.n > 0 : err.code == -r && err.msg[0]);
    for (size_t i = 0; r == 0 && i < array_len(questions); i++)
        assert(audit_policy_choose(&p, &questions[i]).level < AUDIT_LEVELS);
    audit_policy_done(&p);
}

static void try_standard(const struct podsec_standard *s, struct arena *arena)
{
    struct podsec_standard again;
    int r = podsec_standard_parse(podsec_text(s, arena), &again, NULL);
    assert(r == 0 && podsec_same(s, &again));
}

// The text is cut at line ends into the values of the six labels.
static void try_labels(struct str text)
{
    static const char *const keys[] = {"audit",           "audit-version", "enforce",
                                       "enforce-version", "warn",          "warn-version"};
    cleanup_arena struct arena arena = {0};
    struct api_str_entry entries[array_len(keys)];
    struct api_str_map labels = {entries, 0};
    for (size_t i = 0; i < array_len(keys) && text.n; i++) {
        struct str value;
        str_cut(text, '\n', &value, &text);
        if (value.n)
            entries[labels.n++] = (struct api_str_entry){
                arena_strf(&arena, "pod-security.kubernetes.io/%s", keys[i]), value};
    }
    struct causes causes = {.arena = &arena};
    struct podsec_policy p;
    podsec_policy_of(&labels, &podsec_unlabelled, &causes, &p);
    assert(causes.n <= labels.n);
    try_standard(&p.enforce, &arena);
    try_standard(&p.audit, &arena);
    try_standard(&p.warn, &arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = str_make((const char *)data, size);
    try_audit(text);
    try_labels(text);
    return 0;
}

// SPDX-License-Identifier: Apache-2.0
//
// Any bytes as a policy, and as a role: reading must come to an end, a role covers itself, what its rules allow is
// covered by it, and a role without rules covers nothing but itself.
#include <assert.h>

#include "api/api.h"
#include "codec/json.h"
#include "fuzz.h"
#include "server/auth/rbac.h"
#include "server/auth/roles.h"

#include "base/banned.h"

// Questions about everything cost the product of the lists.
#define LISTS_MAX 24

static void ignore(void *arg, const struct api_object *object)
{
    size_t *n = arg;
    assert(object->kind && object->value);
    ++*n;
}

static struct str nth(const struct api_str_array *list, size_t i)
{
    return list->n ? list->p[i % list->n] : STR("");
}

// A question made of the rule's own words; with luck it is allowed.
static void ask(const struct api_policy_rule *rule, size_t i)
{
    struct access q = {.verb = nth(&rule->verbs, i),
                       .group = nth(&rule->api_groups, i / 2),
                       .name = nth(&rule->resource_names, i / 3),
                       .path = i % 5 == 4 ? nth(&rule->non_resource_urls, i) : STR("")};
    (void)str_cut(nth(&rule->resources, i), '/', &q.resource, &q.subresource);
    (void)rbac_rule_allows(rule, &q);
}

static void check_rules(const struct api_policy_rule_array *rules)
{
    const struct api_policy_rule *have[LISTS_MAX];
    size_t n = rules->n < LISTS_MAX ? rules->n : LISTS_MAX;
    for (size_t i = 0; i < n; i++) {
        const struct api_policy_rule *r = &rules->p[i];
        have[i] = r;
        if (r->verbs.n > LISTS_MAX || r->api_groups.n > LISTS_MAX || r->resources.n > LISTS_MAX ||
            r->resource_names.n > LISTS_MAX || r->non_resource_urls.n > LISTS_MAX)
            return;
        for (size_t k = 0; k < 8; k++)
            ask(r, k);
    }
    const struct api_policy_rule *missing = NULL;
    uint64_t left = UINT64_MAX;
    bool covered = rbac_covers(have, n, rules->p, n, &left, &missing);
    // A resource of which only a part behind a slash is named, and the like, give nothing to anybody.
    assert(covered || missing);
    (void)rbac_covers(NULL, 0, rules->p, n, &left, &missing);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    cleanup_arena struct arena arena = {0};
    cleanup_json_doc struct json_doc doc = {0};
    struct str text = str_make((const char *)data, size);
    struct err err = {0};
    struct api_object o;
    size_t objects = 0;
    if (roles_parse(text, &arena, ignore, &objects, &err) < 0)
        assert(err.msg[0]);
    if (json_parse(text, NULL, &doc, NULL) < 0 ||
        api_decode(&doc, doc.root, &arena, NULL, &o, NULL) < 0)
        return 0;
    if (o.kind->type == &api_cluster_role_type)
        check_rules(&((const struct api_cluster_role *)o.value)->rules);
    else if (o.kind->type == &api_role_type)
        check_rules(&((const struct api_role *)o.value)->rules);
    return 0;
}

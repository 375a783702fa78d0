// SPDX-License-Identifier: Apache-2.0
//
// Schemas of custom resources, and objects against them: whatever both say, judging them ends, and what was accepted
// stays accepted: an object that was pruned and defaulted does not change when that is done again.
#include <assert.h>

#include "api/crd/crd_schema.h"
#include "fuzz.h"

#include "base/banned.h"

static void settle(struct dyn *v, const struct crd_node *n, struct arena *a)
{
    crd_prune(v, n, true, NULL);
    crd_default(v, n, a);
}

static void judge(const struct crd_schema *s, struct str object)
{
    cleanup_arena struct arena arena = {0};
    cleanup_json_doc struct json_doc doc = {0};
    if (json_parse(object, NULL, &doc, NULL) < 0)
        return;
    struct dyn v = dyn_of(doc.root, &arena), before = dyn_of(doc.root, &arena);
    // A default may bring a null that goes the next time.
    settle(&v, s->root, &arena);
    settle(&v, s->root, &arena);
    struct dyn once = dyn_copy(&v, &arena);
    settle(&v, s->root, &arena);
    assert(dyn_equal(&v, &once));
    struct causes causes = {.arena = &arena};
    crd_validate(&v, NULL, s->root, &causes);
    crd_check_lists(&v, s->root, NULL, &causes);
    crd_check_embedded(&v, s->root, NULL, &causes);
    crd_rules(&v, &before, s->root, &causes);
    // What did not change is not judged.
    struct causes none = {.arena = &arena};
    crd_validate(&v, &once, s->root, &none);
    assert(none.n == 0);
}

// The schema stands before the first line break, the object behind it.
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str schema, object, all = str_make((const char *)data, size);
    cleanup_arena struct arena arena = {0};
    struct crd_schema *s = NULL;
    (void)str_cut(all, '\n', &schema, &object);
    if (crd_schema_read(schema, NULL, &s, NULL) < 0)
        return 0;
    struct causes causes = {.arena = &arena};
    const struct path at = path_root(STR("schema"));
    const struct crd_check check = {.causes = &causes, .at = &at};
    crd_schema_check(s, &check);
    if (causes.n == 0)
        judge(s, object);
    crd_schema_free(s);
    return 0;
}

// SPDX-License-Identifier: Apache-2.0
//
// Every namespace that is not being deleted has a ServiceAccount named default.
#include <stdlib.h>

#include "ctl/core/ctl_int.h"

#include "base/banned.h"

struct account_ctl {
    struct ctl *ctl;
    struct work *work;
    struct list calls;
};

static void account_step_key(void *arg, struct str key)
{
    struct account_ctl *a = arg;
    const struct typed_object *o = ctl_find(a->ctl, CACHE_NAMESPACES, STR(""), key);
    if (!ctl_synced(a->ctl)) {
        work_retry(a->work, key);
        return;
    }
    if (!o || o->meta->deletion_timestamp.set ||
        ctl_find(a->ctl, CACHE_ACCOUNTS, key, STR("default"))) {
        work_done(a->work, key);
        return;
    }
    struct api_service_account account = {.metadata = {.name = STR("default"), .namespace = key}};
    const struct api_object object = {ctl_kind(CACHE_ACCOUNTS), &account};
    api_set_type_meta(&object);
    client_create(a->ctl->client, &object, NULL, ctl_call_done,
                  ctl_call_new(&a->calls, a->work, key, CACHE_ACCOUNTS));
}

static void account_namespace_changed(void *arg, const struct typed_object *before,
                                      const struct typed_object *after)
{
    struct account_ctl *a = arg;
    work_add(a->work, (after ? after : before)->meta->name);
}

static void account_changed(void *arg, const struct typed_object *before,
                            const struct typed_object *after)
{
    struct account_ctl *a = arg;
    if (!after)
        work_add(a->work, before->meta->namespace);
}

struct account_ctl *account_ctl_new(struct ctl *ctl)
{
    struct account_ctl *a = xcalloc(1, sizeof(*a));
    a->ctl = ctl;
    a->work = ctl_work(ctl, "serviceaccount", account_step_key, a);
    list_init(&a->calls);
    ctl_watch(ctl, CACHE_NAMESPACES, account_namespace_changed, a, a->work);
    ctl_watch(ctl, CACHE_ACCOUNTS, account_changed, a, a->work);
    return a;
}

void account_ctl_free(struct account_ctl *a)
{
    if (!a)
        return;
    ctl_calls_drop(&a->calls);
    work_free(a->work);
    free(a);
}

// SPDX-License-Identifier: Apache-2.0
//
// What the files of the local transport share.
#ifndef INPROC_LOCAL_INT_H
#define INPROC_LOCAL_INT_H

#include "inproc/local.h"
#include "registry/typed_cache.h"
#include "store/select.h"

struct local {
    struct client client;
    struct registry *registry;
    struct exec *registry_exec;
    struct typed_cache *typed;
    struct registry_user user;
    struct arena arena; // of user
    size_t busy;        // calls and watches that are not over
    bool freed;
};

static inline struct local *local_of(struct client *c)
{
    return container_of(c, struct local, client);
}

// local_kind is what a registry has for a kind: itself, unless it is partial (api_kind_partial);
// then the kind that users added, NULL when there is none such now. On the registry's exec.
const struct api_kind *local_kind(const struct registry *registry, const struct api_kind *kind);

// local_release ends one call or watch; a freed client goes with the last.
void local_release(struct local *l);

struct client_watch *local_watch(struct client *c, const struct api_kind *kind,
                                 const struct client_list_options *options, uint64_t since,
                                 client_event_fn event, void *arg);
void local_watch_stop(struct client_watch *w);

#endif

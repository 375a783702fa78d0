// SPDX-License-Identifier: Apache-2.0
//
// The claim's status.devices, by server-side apply: only what this driver owns is touched.
#include <stdlib.h>

#include "codec/json_writer.h"
#include "driver/sdk.h"

#include "base/banned.h"

static void member(struct json_writer *w, struct str key, struct str value)
{
    json_write_key(w, key);
    json_write_str(w, value);
}

void sdk_apply_status(struct dray_driver *d, const struct dray_claim *claim, struct str devices,
                      struct str manager, client_done_fn done, void *arg)
{
    cleanup_sbuf struct sbuf body = {0};
    struct json_writer w = {.out = &body};
    json_write_object_begin(&w);
    member(&w, STR("apiVersion"), STR("resource.k8s.io/v1"));
    member(&w, STR("kind"), STR("ResourceClaim"));
    json_write_key(&w, STR("metadata"));
    json_write_object_begin(&w);
    member(&w, STR("name"), str_z(claim->name));
    member(&w, STR("namespace"), str_z(claim->namespace_));
    member(&w, STR("uid"), str_z(claim->uid)); // never another claim of this name
    json_write_object_end(&w);
    json_write_key(&w, STR("status"));
    json_write_object_begin(&w);
    json_write_key(&w, STR("devices"));
    json_write_raw(&w, devices);
    json_write_object_end(&w);
    json_write_object_end(&w);
    const struct client_key key = {api_kind_find(STR("resource.k8s.io/v1"), STR("ResourceClaim")),
                                   str_z(claim->namespace_), str_z(claim->name)};
    const struct client_write how = {
        .subresource = STR("status"), .field_manager = manager, .force = true};
    client_patch(d->runtime->client, &key, CLIENT_PATCH_APPLY, sbuf_str(&body), &how, done, arg);
}

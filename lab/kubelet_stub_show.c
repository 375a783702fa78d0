// SPDX-License-Identifier: Apache-2.0
//
// dray kubelet-stub: what a driver's author sees.
#include <stdio.h>
#include <string.h>

#include "cdi/cache.h"
#include "codec/json_writer.h"
#include "lab/kubelet_stub.h"

#include "base/banned.h"

struct id_list VEC(struct str);

// The CDI names of a claim, each once.
static void gather_ids(const struct node_claim *c, struct arena *a, struct id_list *out)
{
    vec_foreach(&c->drivers, part)
        vec_foreach(&part->devices, device)
            vec_foreach(&device->cdi_device_ids, id) {
                bool known = false;
                vec_foreach(out, before)
                    known = known || str_eq(*before, *id);
                if (!known)
                    vec_push_arena(a, out, *id);
            }
}

static void show_texts(const char *label, const struct cdi_texts *texts)
{
    vec_foreach(texts, t)
        printf("      %-7s %.*s\n", label, STR_ARG(*t));
}

static void show_nodes_and_mounts(const struct cdi_edits *e)
{
    vec_foreach(&e->device_nodes, d)
        printf("      device  %.*s%s%.*s\n", STR_ARG(d->path), d->host_path.n ? " from " : "",
               STR_ARG(d->host_path));
    vec_foreach(&e->mounts, m)
        printf("      mount   %.*s from %.*s\n", STR_ARG(m->container_path), STR_ARG(m->host_path));
    vec_foreach(&e->net_devices, n)
        printf("      network %.*s as %.*s\n", STR_ARG(n->host_interface_name), STR_ARG(n->name));
    vec_foreach(&e->hooks, h)
        printf("      hook    %.*s %.*s\n", STR_ARG(h->hook_name), STR_ARG(h->path));
    vec_foreach(&e->additional_gids, g)
        printf("      group   %u\n", *g);
    if (e->intel_rdt)
        printf("      RDT     class %.*s\n", STR_ARG(e->intel_rdt->clos_id));
}

static struct cdi_cache *kubelet_stub_open_cache(const struct stub_args *args)
{
    struct cdi_cache *cache = cdi_cache_new(args->cdi_dirs.p, args->cdi_dirs.n);
    cdi_cache_rescan(cache);
    return cache;
}

bool kubelet_stub_show_edits(const struct stub_args *args, const struct str *ids, size_t n)
{
    cleanup_arena struct arena a = {0};
    struct cdi_cache *cache = kubelet_stub_open_cache(args);
    struct cdi_edits edits = {0};
    struct err err = {0};
    bool known = cdi_cache_edits(cache, ids, n, &a, &edits, &err) == 0;
    if (!known) {
        printf("    CDI: %s\n", err.msg);
    } else if (cdi_edits_are_empty(&edits)) {
        printf("    changes nothing in a container\n");
    } else {
        printf("    a container gets\n");
        show_texts("env", &edits.env);
        show_nodes_and_mounts(&edits);
    }
    cdi_cache_free(cache);
    return known;
}

static void show_device(const struct node_claim_driver *part, const struct plugin_device *d)
{
    printf("  %.*s  pool %.*s  device %.*s", STR_ARG(part->name), STR_ARG(d->pool_name),
           STR_ARG(d->device_name));
    if (d->has_share_id)
        printf("  share %.*s", STR_ARG(d->share_id));
    for (size_t i = 0; i < d->request_names.n; i++)
        printf("%s%.*s", i ? ", " : "  for ", STR_ARG(d->request_names.p[i]));
    printf("\n");
    vec_foreach(&d->cdi_device_ids, id)
        printf("    %.*s\n", STR_ARG(*id));
    if (d->cdi_device_ids.n == 0)
        printf("    no CDI names\n");
}

static void show_text(const struct stub_args *args, const struct node_claim *c, int64_t took_ns)
{
    cleanup_arena struct arena a = {0};
    struct id_list ids = {0};
    printf("%.*s (UID %.*s)", STR_ARG(c->key), STR_ARG(c->uid));
    if (took_ns >= 0)
        printf(": prepared in %.1f ms", (double)took_ns / (double)CLOCK_NS_PER_MS);
    printf("\n");
    vec_foreach(&c->drivers, part) {
        vec_foreach(&part->devices, d)
            show_device(part, d);
        if (part->devices.n == 0)
            printf("  %.*s  no devices\n", STR_ARG(part->name));
    }
    gather_ids(c, &a, &ids);
    if (ids.n > 0)
        (void)kubelet_stub_show_edits(args, ids.p, ids.n);
}

// --- JSON ----------------------------------------------------------------------------------------

static void kubelet_stub_show_write_texts(struct json_writer *w, const char *key,
                                          const struct plugin_strs *texts)
{
    json_write_key(w, str_z(key));
    json_write_array_begin(w);
    vec_foreach(texts, t)
        json_write_str(w, *t);
    json_write_array_end(w);
}

static void kubelet_stub_show_write_device(struct json_writer *w,
                                           const struct node_claim_driver *part,
                                           const struct plugin_device *d)
{
    json_write_object_begin(w);
    json_write_text(w, "driver", part->name);
    json_write_text(w, "pool", d->pool_name);
    json_write_text(w, "device", d->device_name);
    if (d->has_share_id)
        json_write_text(w, "shareID", d->share_id);
    kubelet_stub_show_write_texts(w, "requestNames", &d->request_names);
    kubelet_stub_show_write_texts(w, "cdiDeviceIDs", &d->cdi_device_ids);
    json_write_object_end(w);
}

static void write_edits(struct json_writer *w, const struct stub_args *args,
                        const struct id_list *ids)
{
    cleanup_arena struct arena a = {0};
    struct cdi_cache *cache = kubelet_stub_open_cache(args);
    struct cdi_edits edits = {0};
    struct err err = {0};
    if (cdi_cache_edits(cache, ids->p, ids->n, &a, &edits, &err) == 0) {
        json_write_key(w, STR("containerEdits"));
        cdi_write_edits(w, &edits);
    } else {
        json_write_text(w, "cdiError", str_z(err.msg));
    }
    cdi_cache_free(cache);
}

static void kubelet_stub_print_json(const struct stub_args *args, const struct node_claim *c,
                                    int64_t took_ns)
{
    cleanup_arena struct arena a = {0};
    cleanup_sbuf struct sbuf out = {0};
    struct json_writer w = {.out = &out};
    struct id_list ids = {0};
    json_write_object_begin(&w);
    json_write_text(&w, "namespace", c->namespace);
    json_write_text(&w, "name", c->name);
    json_write_text(&w, "uid", c->uid);
    if (took_ns >= 0) {
        json_write_key(&w, STR("microseconds"));
        json_write_i64(&w, took_ns / CLOCK_NS_PER_US);
    }
    json_write_key(&w, STR("pods"));
    json_write_array_begin(&w);
    vec_foreach(&c->pods, uid)
        json_write_str(&w, str_z(*uid));
    json_write_array_end(&w);
    json_write_key(&w, STR("devices"));
    json_write_array_begin(&w);
    vec_foreach(&c->drivers, part)
        vec_foreach(&part->devices, d)
            kubelet_stub_show_write_device(&w, part, d);
    json_write_array_end(&w);
    gather_ids(c, &a, &ids);
    if (ids.n > 0)
        write_edits(&w, args, &ids);
    json_write_object_end(&w);
    puts(out.p);
}

void kubelet_stub_show_claim(const struct stub_args *args, const struct node_claim *claim,
                             int64_t took_ns)
{
    if (args->output)
        kubelet_stub_print_json(args, claim, took_ns);
    else
        show_text(args, claim, took_ns);
    (void)fflush(stdout);
}

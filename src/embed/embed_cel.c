// SPDX-License-Identifier: Apache-2.0
//
// include/dray/cel.h: selectors compiled from text and evaluated on the devices of ResourceSlices.
#include <assert.h>
#include <stdlib.h>

#include "alloc/alloc.h"
#include "api/api.h"
#include "api/validate.h"
#include "base/mem.h"
#include "base/vec.h"
#include "cel/cel.h"
#include "cel/value.h"
#include "dray/cel.h"
#include "embed/embed_int.h"

#include "base/banned.h"

// --- Programs ------------------------------------------------------------------------------------

struct dray_cel {
    struct cel_program *program;
    bool selector;
    char *type; // owned
};

int dray_cel_compile(const char *expression, const struct dray_cel_options *options,
                     struct dray_cel **ret, struct dray_error *err)
{
    bool any_type = options && options->any_type;
    const struct cel_env_options env_options = {
        .kind = CEL_ENV_DRA,
        .new_expressions = options && options->new_expressions,
        .consumable_capacity = true,
        .list_type_attributes = true,
        .any_result = any_type,
    };
    struct cel_env *env = cel_env_new(&env_options);
    struct cel_program *program = NULL;
    struct err failure = {0};
    int r = cel_compile(env, str_z(expression), &program, NULL, &failure);
    cel_env_free(env);
    if (r < 0)
        return err_to_public(err, &failure);
    cleanup_sbuf struct sbuf type = {0};
    cel_type_write_go(cel_program_type(program), &type);
    struct dray_cel *p = xcalloc(1, sizeof(*p));
    *p = (struct dray_cel){program, !any_type, sbuf_take(&type)};
    *ret = p;
    return 0;
}

void dray_cel_free(struct dray_cel *p)
{
    if (!p)
        return;
    cel_program_free(p->program);
    free(p->type);
    free(p);
}

struct dray_cel_info dray_cel_info(const struct dray_cel *p)
{
    return (struct dray_cel_info){.type = p->type,
                                  .min_cost = cel_program_min_cost(p->program),
                                  .max_cost = cel_program_max_cost(p->program)};
}

// --- Devices -------------------------------------------------------------------------------------

struct named_device {
    struct cel_device *device;
    const char *name; // in the arena
};

struct dray_devices {
    struct arena arena;
    struct cel_shapes *shapes;
    struct cel_run *run;
    struct VEC(struct named_device) list;
};

static int embed_cel_add_slice(struct dray_devices *d, const struct api_resource_slice *slice,
                               struct err *err)
{
    for (size_t i = 0; i < slice->spec.devices.n; i++) {
        const struct api_device *api = &slice->spec.devices.p[i];
        struct named_device new = {0};
        int r = alloc_cel_device_new(d->shapes, slice->spec.driver, api, &new.device, err);
        if (r < 0)
            return r;
        new.name = arena_strf(&d->arena, "%.*s/%.*s/%.*s", STR_ARG(slice->spec.driver),
                              STR_ARG(slice->spec.pool.name), STR_ARG(api->name))
                       .p;
        vec_push(&d->list, new);
    }
    return 0;
}

static int embed_cel_add_object(void *arg, const struct json_doc *doc, const yyjson_val *object,
                                struct err *err)
{
    struct dray_devices *d = arg;
    struct api_object decoded = {0}, hub = {0};
    if (!str_eqz(embed_text_field(object, STR("kind")), "ResourceSlice"))
        return 0;
    cleanup_arena struct arena arena = {0};
    int r = api_decode(doc, object, &arena, NULL, &decoded, err);
    if (r == 0)
        r = api_convert(&decoded, api_hub_kind(decoded.kind), &arena, &hub, err);
    return r < 0 ? r : embed_cel_add_slice(d, hub.value, err);
}

int dray_devices_read(const char *text, size_t len, struct dray_devices **ret,
                      struct dray_error *err)
{
    struct dray_devices *d = xcalloc(1, sizeof(*d));
    struct err failure = {0};
    d->shapes = cel_shapes_new();
    d->run = cel_run_new();
    if (embed_text_foreach(str_make(text, len), embed_cel_add_object, d, &failure) < 0) {
        dray_devices_free(d);
        return err_to_public(err, &failure);
    }
    *ret = d;
    return 0;
}

void dray_devices_free(struct dray_devices *d)
{
    if (!d)
        return;
    for (size_t i = 0; i < d->list.n; i++)
        cel_device_free(d->list.p[i].device);
    vec_done(&d->list);
    cel_run_free(d->run);
    cel_shapes_free(d->shapes);
    arena_done(&d->arena);
    free(d);
}

size_t dray_devices_len(const struct dray_devices *d)
{
    return d->list.n;
}

const char *dray_devices_name(const struct dray_devices *d, size_t i)
{
    assert(i < d->list.n);
    return d->list.p[i].name;
}

// --- Evaluation ----------------------------------------------------------------------------------

void dray_cel_eval(const struct dray_cel *p, struct dray_devices *d, size_t i,
                   struct dray_cel_result *ret)
{
    assert(i < d->list.n);
    struct cel_result result;
    struct sbuf text = {0};
    if (p->selector)
        (void)cel_eval_device(d->run, p->program, d->list.p[i].device, &result);
    else
        cel_eval_value(d->run, p->program, d->list.p[i].device, NULL, &result);
    if (result.failed)
        sbuf_add(&text, result.error);
    else
        cel_write(*result.value, &text);
    *ret = (struct dray_cel_result){.match = result.match,
                                    .failed = result.failed,
                                    .cost = result.cost,
                                    .text = sbuf_take(&text)};
}

void dray_cel_result_done(struct dray_cel_result *r)
{
    free(r->text);
    *r = (struct dray_cel_result){0};
}

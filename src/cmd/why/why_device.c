// SPDX-License-Identifier: Apache-2.0
//
// Why a device cannot be had: held, tainted, of a pool that does not count, in parts elsewhere.
#include "cmd/devices/device_verb.h"
#include "cmd/why/why_object.h"
#include "codec/json_writer.h"

#include "base/banned.h"

struct device_look {
    uint32_t first;
    size_t n;
};

static void device_seen(void *arg, uint32_t device)
{
    struct device_look *f = arg;
    if (f->n++ == 0)
        f->first = device;
}

static void device_write_change(struct json_writer *w, size_t fix, const char *action,
                                const char *kind, struct str namespace, struct str name,
                                struct str text)
{
    json_write_object_begin(w);
    json_write_number(w, "fix", (int64_t)fix);
    json_write_text(w, "by", namespace.n ? STR("owner") : STR("admin"));
    json_write_flag(w, "verified", false);
    json_write_flag(w, "executable", strcmp(action, "manual") != 0);
    json_write_array_in(w, "changes");
    json_write_object_begin(w);
    json_write_text(w, "kind", str_z(kind));
    json_write_text(w, "action", str_z(action));
    json_write_text(w, "text", text);
    if (name.n) {
        json_write_object_in(w, "object");
        json_write_text(w, "kind",
                        strcmp(action, "release") == 0 ? STR("ResourceClaim")
                                                       : STR("DeviceTaintRule"));
        json_write_text_if(w, "namespace", namespace);
        json_write_text(w, "name", name);
        json_write_object_end(w);
    }
    json_write_object_end(w);
    json_write_array_end(w);
    json_write_object_end(w);
}

static void device_write_holders(struct json_writer *w, const struct inventory *inv,
                                 const struct inventory_device *d, struct sbuf *cause)
{
    struct arena arena = {0};
    size_t fix = 0;
    json_write_array_in(w, "remedies");
    for (uint32_t i = 0; i < d->holds_len; i++) {
        const struct inventory_claim *c = &inv->claims[inv->holds[d->first_hold + i].claim];
        struct str namespace, name;
        sbuf_addf(cause, "%s claim %.*s",
                  i          ? ","
                  : cause->n ? "; held by"
                             : "it is held by",
                  STR_ARG(c->name));
        if (c->pods.n)
            sbuf_addf(cause, " (pod %.*s)", STR_ARG(c->pods));
        if (str_cut(c->name, '/', &namespace, &name))
            device_write_change(w, ++fix, "release", "claimGone", namespace, name,
                                arena_strf(&arena, "claim %.*s gone", STR_ARG(c->name)));
    }
    if (d->taints.n)
        device_write_change(
            w, ++fix, "manual", "taint", STR(""), STR(""),
            STR("take the taint away: dray untaint, or see the driver that set it"));
    else if (d->state == INVENTORY_LOST)
        device_write_change(w, ++fix, "manual", "startDriver", STR(""), STR(""),
                            STR("see that its driver runs and publishes the whole pool"));
    json_write_array_end(w);
    arena_done(&arena);
}

static void device_write(const struct inventory *inv, const struct inventory_device *d,
                         struct sbuf *out)
{
    struct json_writer w = {.out = out};
    cleanup_sbuf struct sbuf cause = {0}, name = {0}, rest = {0};
    struct json_writer helps = {.out = &rest};
    bool good = d->state == INVENTORY_FREE || d->state == INVENTORY_PART;
    inventory_name(&d->id, &name);
    if (d->why.n)
        sbuf_addf(&cause, "it is %s: %.*s", inventory_state_name(d->state), STR_ARG(d->why));
    json_write_object_begin(&helps);
    device_write_holders(&helps, inv, d, &cause);
    json_write_object_end(&helps);
    json_write_object_begin(&w);
    json_write_text(&w, "kind", STR("Device"));
    json_write_text(&w, "name", sbuf_str(&name));
    json_write_text(&w, "state", good ? STR("running") : STR("failing"));
    json_write_text(&w, "deviceState", str_z(inventory_state_name(d->state)));
    json_write_text_if(&w, "node", d->node);
    if (!good)
        json_write_text_if(&w, "cause", sbuf_str(&cause));
    else
        json_write_text_if(&w, "note", sbuf_str(&cause));
    // The list of remedies alone.
    struct str list = str_from(sbuf_str(&rest), strlen("{\"remedies\":"));
    json_write_key(&w, STR("remedies"));
    json_write_raw(&w, str_upto(list, list.n - 1));
    json_write_object_end(&w);
}

int why_device(struct why_source *s, struct str name, struct sbuf *out, struct err *err)
{
    struct plan_world *world = plan_world_new();
    struct features gates;
    struct inventory *inv = NULL;
    struct device_look found = {0};
    features_init(&gates, FEATURES_MINOR);
    (void)!cluster_features(&s->cluster, &gates, NULL); // the defaults do
    const struct inventory_options o = {.features = alloc_features_of(&gates)};
    int r = device_verb_read_world(&s->cluster, world, DEVICE_WORLD_DEVICES, STR(""), err);
    if (r == 0)
        r = inventory_new(world, &o, &inv, err);
    if (r == 0)
        (void)inventory_find(inv, name, device_seen, &found);
    if (r == 0 && found.n != 1)
        r = err_set(err, ERR_NOT_FOUND,
                    found.n ? "%zu devices are called %.*s; name one as "
                              "DRIVER/POOL/DEVICE"
                            : "there is no device among %zu that is called "
                              "%.*s",
                    found.n ? found.n : inv->devices_len, STR_ARG(name));
    if (r == 0)
        device_write(inv, &inv->devices[found.first], out);
    inventory_free(inv);
    plan_world_free(world);
    return r;
}

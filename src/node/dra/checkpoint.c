// SPDX-License-Identifier: Apache-2.0
//
// Kubelet's dra_manager_state: writes the claims of a node as kubelet does, byte for byte including
// the checksum, and reads it with bounds and checks, since an older or foreign program may have
// written it.
#include "node/checkpoint.h"

#include "codec/json.h"
#include "codec/json_writer.h"

#include "base/banned.h"

#define KIND        "DRACheckpoint"
#define API_VERSION "checkpoint.dra.kubelet.k8s.io/v1"

uint32_t checkpoint_crc(struct str bytes)
{
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < bytes.n; i++) {
        crc ^= (unsigned char)bytes.p[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? UINT32_C(0xedb88320) : 0);
    }
    return ~crc;
}

// --- Writing -------------------------------------------------------------------------------------

static void checkpoint_write_texts(struct json_writer *w, struct str key, const struct str *texts,
                                   size_t n)
{
    json_write_key(w, key);
    if (n == 0) {
        json_write_null(w); // Go's nil
        return;
    }
    json_write_array_begin(w);
    for (size_t i = 0; i < n; i++)
        json_write_str(w, texts[i]);
    json_write_array_end(w);
}

static void checkpoint_write_device(struct json_writer *w, const struct plugin_device *d)
{
    json_write_object_begin(w);
    json_write_text(w, "PoolName", d->pool_name);
    json_write_text(w, "DeviceName", d->device_name);
    json_write_key(w, STR("ShareID"));
    if (d->has_share_id)
        json_write_str(w, d->share_id);
    else
        json_write_null(w);
    checkpoint_write_texts(w, STR("RequestNames"), d->request_names.p, d->request_names.n);
    checkpoint_write_texts(w, STR("CDIDeviceIDs"), d->cdi_device_ids.p, d->cdi_device_ids.n);
    json_write_object_end(w);
}

static void checkpoint_write_driver(struct json_writer *w, const struct node_claim_driver *d)
{
    json_write_object_begin(w);
    json_write_key(w, STR("Devices"));
    if (d->devices.n == 0) {
        json_write_null(w);
    } else {
        json_write_array_begin(w);
        vec_foreach(&d->devices, device)
            checkpoint_write_device(w, device);
        json_write_array_end(w);
    }
    if (d->skips.n > 0)
        checkpoint_write_texts(w, STR("skipNodeOperations"), d->skips.p, d->skips.n);
    json_write_object_end(w);
}

static void checkpoint_write_claim(struct json_writer *w, const struct node_claim *c)
{
    json_write_object_begin(w);
    json_write_text(w, "ClaimUID", c->uid);
    json_write_text(w, "ClaimName", c->name);
    json_write_text(w, "Namespace", c->namespace);
    json_write_key(w, STR("PodUIDs"));
    json_write_object_begin(w);
    vec_foreach(&c->pods, uid) {
        json_write_key(w, str_z(*uid));
        json_write_object_begin(w);
        json_write_object_end(w);
    }
    json_write_object_end(w);
    json_write_key(w, STR("DriverState"));
    json_write_object_begin(w);
    vec_foreach(&c->drivers, d) {
        json_write_key(w, d->name);
        checkpoint_write_driver(w, d);
    }
    json_write_object_end(w);
    json_write_object_end(w);
}

void checkpoint_write(const struct node_claims *claims, struct sbuf *out)
{
    cleanup_sbuf struct sbuf data = {0};
    struct json_writer w = {.out = &data, .html = true};
    json_write_object_begin(&w);
    json_write_text(&w, "kind", STR(KIND));
    json_write_text(&w, "apiVersion", STR(API_VERSION));
    json_write_key(&w, STR("ClaimInfoStateList"));
    json_write_array_begin(&w);
    map_foreach(&claims->by_key, i)
        checkpoint_write_claim(&w, *map_value(&claims->by_key, i));
    json_write_array_end(&w);
    json_write_object_end(&w);

    w = (struct json_writer){.out = out, .html = true};
    json_write_object_begin(&w);
    json_write_text(&w, "Data", sbuf_str(&data));
    json_write_key(&w, STR("Checksum"));
    json_write_u64(&w, checkpoint_crc(sbuf_str(&data)));
    json_write_object_end(&w);
}

// --- Reading -------------------------------------------------------------------------------------

const struct json_options checkpoint_json = {
    .max_bytes = (size_t)256 * 1024 * 1024,
    .duplicates = JSON_DUPLICATES_LAST,
};

const yyjson_val *checkpoint_member(const yyjson_val *in, struct str key)
{
    const yyjson_val *v = json_get(in, key);
    return v && !json_is_null(v) ? v : NULL;
}

int checkpoint_text(const yyjson_val *in, struct str key, struct str *ret, struct err *err)
{
    const yyjson_val *v = checkpoint_member(in, key);
    *ret = (struct str){0};
    int r = v ? json_to_str(v, ret, err) : 0;
    if (r < 0)
        err_path_field(err, key.p, key.n);
    return r;
}

static int checkpoint_read_texts(const yyjson_val *in, struct str key, struct arena *a,
                                 struct plugin_strs *ret, struct err *err)
{
    const yyjson_val *v = checkpoint_member(in, key);
    int r = v ? json_want_array(v, err) : 0;
    if (!v || r < 0)
        return r;
    json_arr_foreach(v, item) {
        struct str text = {0};
        if (!json_is_null(item)) // Go reads null as an empty text
            r = json_to_str(item, &text, err);
        if (r < 0)
            return r;
        vec_push_arena(a, ret, text);
    }
    return 0;
}

static int checkpoint_read_device(const yyjson_val *v, struct arena *a, struct plugin_device *ret,
                                  struct err *err)
{
    *ret = (struct plugin_device){0};
    int r = json_want_object(v, err);
    if (r == 0)
        r = checkpoint_text(v, STR("PoolName"), &ret->pool_name, err);
    if (r == 0)
        r = checkpoint_text(v, STR("DeviceName"), &ret->device_name, err);
    if (r == 0)
        r = checkpoint_text(v, STR("ShareID"), &ret->share_id, err);
    if (r == 0)
        r = checkpoint_read_texts(v, STR("RequestNames"), a, &ret->request_names, err);
    if (r == 0)
        r = checkpoint_read_texts(v, STR("CDIDeviceIDs"), a, &ret->cdi_device_ids, err);
    ret->has_share_id = r == 0 && checkpoint_member(v, STR("ShareID"));
    return r;
}

static int checkpoint_read_devices(const yyjson_val *v, struct node_claim_driver *d,
                                   struct err *err)
{
    cleanup_arena struct arena a = {0};
    struct node_claim_devices all = {0};
    int r = json_want_array(v, err);
    if (r < 0)
        return r;
    json_arr_foreach(v, item) {
        struct plugin_device device = {0};
        if (!json_is_null(item) && (r = checkpoint_read_device(item, &a, &device, err)) < 0) {
            err_path_index(err, all.n);
            return r;
        }
        vec_push_arena(&a, &all, device);
    }
    node_claim_driver_set(d, all.p, all.n);
    return 0;
}

static int checkpoint_read_driver(struct node_claim *c, struct str name, const yyjson_val *v,
                                  struct err *err)
{
    struct node_claim_driver *d = node_claim_driver_add(c, name);
    if (json_is_null(v))
        return 0;
    int r = json_want_object(v, err);
    const yyjson_val *devices = r == 0 ? checkpoint_member(v, STR("Devices")) : NULL;
    if (devices)
        r = checkpoint_read_devices(devices, d, err);
    struct plugin_strs skips = {0};
    if (r == 0)
        r = checkpoint_read_texts(v, STR("skipNodeOperations"), &c->arena, &skips, err);
    vec_foreach(&skips, s)
        vec_push_arena(&c->arena, &d->skips, arena_str(&c->arena, *s));
    return r;
}

static int checkpoint_read_drivers(struct node_claim *c, const yyjson_val *v, struct err *err)
{
    int r = json_want_object(v, err);
    if (r < 0)
        return r;
    json_obj_foreach(v, key, val) {
        r = checkpoint_read_driver(c, json_str(key), val, err);
        if (r < 0) {
            err_path_key(err, json_str(key).p, json_len(key));
            err_path_field(err, "DriverState", 11);
            return r;
        }
    }
    return 0;
}

static int checkpoint_read_pods(struct node_claim *c, const yyjson_val *v, struct err *err)
{
    int r = json_want_object(v, err);
    if (r < 0)
        return r;
    json_obj_foreach(v, key, val) {
        // A UID is never empty and has no NUL; whatever has is no pod of ours.
        struct str uid = json_str(key);
        if (uid.n == 0 || str_find_char(uid, '\0') >= 0)
            return err_set(err, ERR_BAD_REQUEST, "a pod has no UID");
        (void)val;
        (void)node_claim_pod_add(c, uid);
    }
    return 0;
}

// A name that could be taken for another one's key cannot come from kubelet.
static int checkpoint_check_names(struct str namespace, struct str name, struct str uid,
                                  struct err *err)
{
    if (name.n == 0 || uid.n == 0 || str_find_char(name, '/') >= 0 ||
        str_find_char(namespace, '/') >= 0)
        return err_set(err, ERR_BAD_REQUEST, "a claim without a proper name and UID");
    return 0;
}

static int checkpoint_read_claim(const yyjson_val *v, struct node_claims *all, struct err *err)
{
    struct str namespace = {0}, name = {0}, uid = {0};
    int r = json_want_object(v, err);
    if (r == 0)
        r = checkpoint_text(v, STR("Namespace"), &namespace, err);
    if (r == 0)
        r = checkpoint_text(v, STR("ClaimName"), &name, err);
    if (r == 0)
        r = checkpoint_text(v, STR("ClaimUID"), &uid, err);
    if (r == 0)
        r = checkpoint_check_names(namespace, name, uid, err);
    if (r < 0)
        return r;
    struct node_claim *c = node_claim_new(namespace, name, uid);
    const yyjson_val *pods = checkpoint_member(v, STR("PodUIDs"));
    const yyjson_val *drivers = checkpoint_member(v, STR("DriverState"));
    if (pods)
        r = checkpoint_read_pods(c, pods, err);
    if (r == 0 && drivers)
        r = checkpoint_read_drivers(c, drivers, err);
    if (r < 0) {
        node_claim_free(c);
        return r;
    }
    struct node_claim *before = node_claims_find(all, namespace, name);
    if (before)
        node_claim_free(node_claims_take(all, before));
    node_claims_add(all, c);
    return 0;
}

static int checkpoint_read_claims(const yyjson_val *v, struct node_claims *all, struct err *err)
{
    int r = json_want_array(v, err);
    size_t i = 0;
    if (r == 0 && json_len(v) > CHECKPOINT_CLAIMS_MAX)
        return err_set(err, ERR_BAD_REQUEST, "more than %d claims", CHECKPOINT_CLAIMS_MAX);
    if (r < 0)
        return r;
    json_arr_foreach(v, item) {
        r = checkpoint_read_claim(item, all, err);
        if (r < 0) {
            err_path_index(err, i);
            err_path_field(err, "ClaimInfoStateList", 18);
            return r;
        }
        i++;
    }
    return 0;
}

static int checkpoint_read_data(struct str data, struct node_claims *all, struct err *err)
{
    cleanup_json_doc struct json_doc doc = {0};
    int r = json_parse(data, &checkpoint_json, &doc, err);
    if (r == 0)
        r = json_want_object(doc.root, err);
    const yyjson_val *list = r == 0 ? checkpoint_member(doc.root, STR("ClaimInfoStateList")) : NULL;
    return list ? checkpoint_read_claims(list, all, err) : r;
}

int checkpoint_read(struct str text, struct node_claims *ret, struct err *err)
{
    cleanup_json_doc struct json_doc doc = {0};
    struct str data = {0};
    uint32_t checksum = 0;
    int r = json_parse(text, &checkpoint_json, &doc, err);
    if (r == 0)
        r = json_want_object(doc.root, err);
    if (r == 0)
        r = checkpoint_text(doc.root, STR("Data"), &data, err);
    const yyjson_val *sum = r == 0 ? checkpoint_member(doc.root, STR("Checksum")) : NULL;
    if (sum)
        r = json_to_u32(sum, &checksum, err);
    if (r < 0)
        return -ERR_BAD_REQUEST;
    uint32_t want = checkpoint_crc(data);
    if (want != checksum)
        return err_set(err, ERR_INVALID,
                       "checkpoint is corrupted: the checksum is %u, that of the data is %u",
                       checksum, want);
    if (checkpoint_read_data(data, ret, err) < 0) {
        (void)err_wrap(err, "Data");
        node_claims_done(ret);
        *ret = (struct node_claims){0};
        return -ERR_BAD_REQUEST;
    }
    return 0;
}

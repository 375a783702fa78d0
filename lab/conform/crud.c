// SPDX-License-Identifier: Apache-2.0
//
// What the API must do with the kinds of Dynamic Resource Allocation, as Kubernetes' own
// conformance tests have it: create, get, list, watch, update, patch, delete, deletecollection.
#include <stdio.h>

#include "lab/conform/session.h"

#include "base/banned.h"

#define GROUP        "resource.k8s.io"
#define STRATEGIC    "application/strategic-merge-patch+json"
#define MERGE        "application/merge-patch+json"
#define JSON_PATCH   "application/json-patch+json"
#define APPLY        "application/apply-patch+yaml"
#define PUT_ATTEMPTS 5
#define PUT_PAUSE_MS 50
#define DELETE_WAIT  300 // tries

struct kind {
    const char *name, *plural;
    bool namespaced;
    const char *spec, *changed; // of an update; the same where it must not change
    bool status, all_patches;
};

static const struct kind kinds[] = {
    {"DeviceClass", "deviceclasses", false,
     "{\"selectors\":[{\"cel\":{\"expression\":\"false\"}}]}",
     "{\"selectors\":[{\"cel\":{\"expression\":\"1 == 0\"}}]}", false, false},
    {"ResourceClaim", "resourceclaims", true,
     "{\"devices\":{\"requests\":[{\"name\":\"req-0\",\"exactly\":{\"deviceClassName\":"
     "\"conformance.dray.dev\"}}]}}",
     NULL, true, true},
    {"ResourceClaimTemplate", "resourceclaimtemplates", true,
     "{\"spec\":{\"devices\":{\"requests\":[{\"name\":\"req-0\",\"exactly\":{\"deviceClassName\":"
     "\"conformance.dray.dev\"}}]}}}",
     NULL, false, false},
    {"ResourceSlice", "resourceslices", false,
     "{\"driver\":\"conformance.dray.dev\",\"pool\":{\"name\":\"cluster\",\"generation\":1,"
     "\"resourceSliceCount\":1},\"nodeName\":\"no-such-node\"}",
     "{\"driver\":\"conformance.dray.dev\",\"pool\":{\"name\":\"cluster\",\"generation\":1,"
     "\"resourceSliceCount\":1},\"nodeName\":\"no-such-node\",\"devices\":[{\"name\":\"device-0\"}]"
     "}",
     false, false},
    {"DeviceTaintRule", "devicetaintrules", false,
     "{\"deviceSelector\":{\"driver\":\"conformance.dray.dev\"},\"taint\":{\"key\":"
     "\"conformance.dray.dev/test\",\"value\":\"a\",\"effect\":\"NoSchedule\"}}",
     "{\"deviceSelector\":{\"driver\":\"conformance.dray.dev\"},\"taint\":{\"key\":"
     "\"conformance.dray.dev/test\",\"value\":\"b\",\"effect\":\"NoSchedule\"}}",
     false, false},
};

// --- Which version -------------------------------------------------------------------------------

static bool crud_is_served(struct session *s, const char *version, const char *plural)
{
    struct answer a = session_get(s, session_text(s, "/apis/" GROUP "/%s", version));
    const yyjson_val *all = a.root ? json_get(a.root, STR("resources")) : NULL;
    if (!all || !json_is_array(all))
        return false;
    json_arr_foreach(all, r)
        if (str_eqz(session_at(r, "name"), plural))
            return true;
    return false;
}

static const char *crud_find_version(struct session *s, const char *plural)
{
    static const char *const versions[] = {"v1", "v1beta2", "v1beta1", "v1alpha3"};
    for (size_t i = 0; i < array_len(versions); i++)
        if (crud_is_served(s, versions[i], plural))
            return versions[i];
    return NULL;
}

int conform_check_api(struct session *s)
{
    struct answer a = session_call(s, "GET", "/apis/" GROUP "/v1", NULL, NULL);
    if (session_expect(s, &a, 0, "discovery of " GROUP "/v1") != 0)
        return -1;
    session_note(s, "object", a.body);
    for (size_t i = 0; i < array_len(kinds); i++) {
        const char *version = crud_find_version(s, kinds[i].plural);
        if (!version && strcmp(kinds[i].name, "DeviceTaintRule") != 0)
            return session_fail(s, GROUP "/v1 does not serve %s", kinds[i].plural);
        session_notef(s, "%s: %s", kinds[i].plural, version ? version : "not served");
    }
    return 0;
}

// --- Objects -------------------------------------------------------------------------------------

struct crud {
    struct session *s;
    const struct kind *kind;
    const char *version;
    const char *all; // path of the collection
    const char *name;
    const char *path;  // of the object
    struct str before; // resourceVersion of the collection before anything was done
    struct str uid;
};

static const char *crud_make_object(const struct crud *c, const char *name, const char *spec,
                                    struct str resource_version, const char *label)
{
    struct session *s = c->s;
    return session_text(s,
                        "{\"apiVersion\":\"" GROUP
                        "/%s\",\"kind\":\"%s\",\"metadata\":{\"name\":\"%s\"%s%s%s,"
                        "\"labels\":{\"" CONFORM_LABEL "\":\"%.*s\"%s}%s%.*s%s},\"spec\":%s}",
                        c->version, c->kind->name, name,
                        c->kind->namespaced ? ",\"namespace\":\"" : "",
                        c->kind->namespaced ? s->namespace.p : "", c->kind->namespaced ? "\"" : "",
                        STR_ARG(s->run), label, resource_version.n ? ",\"resourceVersion\":\"" : "",
                        STR_ARG(resource_version), resource_version.n ? "\"" : "", spec);
}

static const char *crud_select_path(const struct crud *c, const char *all)
{
    return session_text(c->s, "%s?labelSelector=" CONFORM_LABEL "%%3D%.*s", all,
                        STR_ARG(c->s->run));
}

static size_t crud_count_items(const struct answer *a, const char *name)
{
    const yyjson_val *items = a->root ? json_get(a->root, STR("items")) : NULL;
    size_t n = 0;
    if (!items || !json_is_array(items))
        return 0;
    json_arr_foreach(items, item)
        n += !name || str_eqz(session_at(item, "metadata.name"), name);
    return n;
}

static int crud_check_create(struct crud *c)
{
    struct session *s = c->s;
    const char *body = crud_make_object(c, c->name, c->kind->spec, STR(""), "");
    struct answer a = session_call(s, "POST", c->all, NULL, body);
    if (session_expect(s, &a, 0, "create") != 0)
        return -1;
    session_note(s, "object", a.body);
    c->uid = session_at(a.root, "metadata.uid");
    if (c->uid.n == 0 || session_at(a.root, "metadata.resourceVersion").n == 0 ||
        session_at(a.root, "metadata.creationTimestamp").n == 0)
        return session_fail(s, "create: uid, resourceVersion or creationTimestamp is missing");
    a = session_call(s, "POST", c->all, NULL, body);
    return session_expect(s, &a, -ERR_ALREADY_EXISTS, "create again");
}

static int crud_check_read(struct crud *c)
{
    struct session *s = c->s;
    struct answer a = session_call(s, "GET", c->path, NULL, NULL);
    if (session_expect(s, &a, 0, "get") != 0)
        return -1;
    if (!str_eq(session_at(a.root, "metadata.uid"), c->uid))
        return session_fail(s, "get: another object than the one that was created");
    a = session_call(s, "GET", crud_select_path(c, c->all), NULL, NULL);
    if (session_expect(s, &a, 0, "list") != 0)
        return -1;
    if (crud_count_items(&a, c->name) != 1)
        return session_fail(s, "list: the object is not in it");
    if (!c->kind->namespaced)
        return 0;
    a = session_call(
        s, "GET",
        crud_select_path(c, session_text(s, "/apis/" GROUP "/%s/%s", c->version, c->kind->plural)),
        NULL, NULL);
    if (session_expect(s, &a, 0, "list of all namespaces") != 0)
        return -1;
    return crud_count_items(&a, c->name) == 1
               ? 0
               : session_fail(s, "list of all namespaces: it is not in it");
}

// crud_put_object reads the object and writes it back changed; a controller may have written to it
// in between.
static struct answer crud_put_object(struct crud *c, const char **ret_body)
{
    struct session *s = c->s;
    const char *spec = c->kind->changed ? c->kind->changed : c->kind->spec;
    struct answer a = {0};
    for (int i = 0; i < PUT_ATTEMPTS; i++) {
        a = session_call(s, "GET", c->path, NULL, NULL);
        if (session_expect(s, &a, 0, "get") != 0)
            return a;
        *ret_body =
            crud_make_object(c, c->name, spec, session_at(a.root, "metadata.resourceVersion"),
                             ",\"conformance.dray.dev/updated\":\"yes\"");
        a = session_call(s, "PUT", c->path, NULL, *ret_body);
        if (a.code != -ERR_CONFLICT || !session_pause(s, PUT_PAUSE_MS))
            return a;
    }
    return a;
}

static int crud_check_update(struct crud *c)
{
    struct session *s = c->s;
    const char *body = NULL;
    struct answer a = crud_put_object(c, &body);
    if (session_expect(s, &a, 0, "update") != 0)
        return -1;
    if (!str_eqz(session_at(a.root, "metadata.labels[conformance.dray.dev/updated]"), "yes"))
        return session_fail(s, "update: the label is not there");
    a = session_call(s, "PUT", c->path, NULL, body);
    return session_expect(s, &a, -ERR_CONFLICT, "update of an older resourceVersion");
}

static int patch_once(struct crud *c, const char *type, const char *query, const char *label,
                      const char *body)
{
    struct session *s = c->s;
    struct answer a = session_call(s, "PATCH", session_text(s, "%s%s", c->path, query), type, body);
    if (session_expect(s, &a, 0, type) != 0)
        return -1;
    const char *path = session_text(s, "metadata.labels[conformance.dray.dev/%s]", label);
    return str_eqz(session_at(a.root, path), "yes")
               ? 0
               : session_fail(s, "%s: the label is not there", type);
}

static int crud_check_patch(struct crud *c)
{
    struct session *s = c->s;
    int r = patch_once(c, STRATEGIC, "", "strategic",
                       "{\"metadata\":{\"labels\":{\"conformance.dray.dev/strategic\":\"yes\"}}}");
    if (r == 0)
        r = patch_once(c, MERGE, "", "merge",
                       "{\"metadata\":{\"labels\":{\"conformance.dray.dev/merge\":\"yes\"}}}");
    if (r == 0 && c->kind->all_patches)
        r = patch_once(c, JSON_PATCH, "", "json",
                       "[{\"op\":\"add\",\"path\":\"/metadata/labels/"
                       "conformance.dray.dev~1json\",\"value\":\"yes\"}]");
    if (r == 0 && c->kind->all_patches)
        r = patch_once(
            c, APPLY, "?fieldManager=dray-conformance&force=true", "apply",
            session_text(s,
                         "{\"apiVersion\":\"" GROUP
                         "/%s\",\"kind\":\"%s\",\"metadata\":{\"name\":\"%s\",\"labels\":{"
                         "\"conformance.dray.dev/apply\":\"yes\"}}}",
                         c->version, c->kind->name, c->name));
    return r;
}

// "Nothing" is an allocation that the server accepts.
static int crud_check_status(struct crud *c)
{
    struct session *s = c->s;
    const char *path = session_text(s, "%s/status", c->path);
    struct answer a = session_call(s, "GET", path, NULL, NULL);
    if (session_expect(s, &a, 0, "get status") != 0)
        return -1;
    a = session_call(s, "PATCH", path, MERGE, "{\"status\":{\"allocation\":{}}}");
    if (session_expect(s, &a, 0, "patch status") != 0)
        return -1;
    const yyjson_val *allocation = json_get(json_get(a.root, STR("status")), STR("allocation"));
    return allocation ? 0 : session_fail(s, "patch status: the allocation is not there");
}

static int until_gone(struct crud *c)
{
    struct session *s = c->s;
    for (int i = 0; i < DELETE_WAIT; i++) {
        struct answer a = session_get(s, c->path);
        if (a.code == -ERR_NOT_FOUND) {
            session_notef(s, "GET %s: NotFound, as it must", c->path);
            return 0;
        }
        if (!session_pause(s, 100))
            return session_skip(s, "interrupted");
    }
    return session_fail(s, "delete: it is still there after %d s", DELETE_WAIT / 10);
}

static int crud_check_delete(struct crud *c)
{
    struct answer a = session_call(c->s, "DELETE", c->path, NULL, NULL);
    return session_expect(c->s, &a, 0, "delete") == 0 ? until_gone(c) : -1;
}

static int erase_all(struct crud *c)
{
    struct session *s = c->s;
    for (int i = 0; i < 2; i++) {
        const char *name = session_text(s, "%s-%d", c->name, i);
        struct answer a = session_call(s, "POST", c->all, NULL,
                                       crud_make_object(c, name, c->kind->spec, STR(""), ""));
        if (session_expect(s, &a, 0, "create") != 0)
            return -1;
    }
    struct answer a = session_call(s, "DELETE", crud_select_path(c, c->all), NULL, NULL);
    if (session_expect(s, &a, 0, "deletecollection") != 0)
        return -1;
    for (int i = 0; i < DELETE_WAIT; i++) {
        a = session_get(s, crud_select_path(c, c->all));
        if (a.code == 0 && crud_count_items(&a, NULL) == 0)
            return 0;
        if (!session_pause(s, 100))
            return session_skip(s, "interrupted");
    }
    return session_fail(s, "deletecollection: objects are still there");
}

// The history since the beginning, as a watch delivers it: created, changed, deleted.
static int crud_check_watch(struct crud *c)
{
    struct session *s = c->s;
    const char *path = session_text(
        s, "%s?watch=true&resourceVersion=%.*s&fieldSelector=metadata.name%%3D%s&timeoutSeconds=2",
        c->all, STR_ARG(c->before), c->name);
    struct answer a = session_call(s, "GET", path, NULL, NULL);
    if (session_expect(s, &a, 0, "watch") != 0)
        return -1;
    static const char *const order[] = {"ADDED", "MODIFIED", "DELETED"};
    cleanup_sbuf struct sbuf seen = {0};
    struct str rest = a.body;
    size_t step = 0;
    while (rest.n > 0) {
        struct str line;
        cleanup_json_doc struct json_doc doc = {0};
        (void)str_cut(rest, '\n', &line, &rest);
        if (str_trim(line).n == 0 || json_parse(line, NULL, &doc, NULL) != 0)
            continue;
        struct str type = session_at(doc.root, "type");
        sbuf_addf(&seen, "%s%.*s", seen.n ? " " : "", STR_ARG(type));
        if (step < array_len(order) && str_eqz(type, order[step]))
            step++;
    }
    session_notef(s, "events: %s", seen.n ? seen.p : "none");
    return step == array_len(order) ? 0
                                    : session_fail(s, "watch: no %s event; seen: %s", order[step],
                                                   seen.n ? seen.p : "none");
}

int conform_check_crud(struct session *s, const char *kind)
{
    struct crud c = {.s = s};
    for (size_t i = 0; i < array_len(kinds); i++)
        if (strcmp(kinds[i].name, kind) == 0)
            c.kind = &kinds[i];
    c.version = crud_find_version(s, c.kind->plural);
    if (!c.version)
        return session_skip(s, "the server does not serve %s", c.kind->plural);
    c.all = c.kind->namespaced
                ? session_text(s, "/apis/" GROUP "/%s/namespaces/%s/%s", c.version, s->namespace.p,
                               c.kind->plural)
                : session_text(s, "/apis/" GROUP "/%s/%s", c.version, c.kind->plural);
    c.name = session_text(s, "conformance-%s", s->run.p);
    c.path = session_text(s, "%s/%s", c.all, c.name);
    struct answer a = session_call(s, "GET", crud_select_path(&c, c.all), NULL, NULL);
    if (session_expect(s, &a, 0, "list") != 0)
        return -1;
    c.before = session_at(a.root, "metadata.resourceVersion");
    int r = crud_check_create(&c);
    if (r == 0)
        r = crud_check_read(&c);
    if (r == 0)
        r = crud_check_update(&c);
    if (r == 0)
        r = crud_check_patch(&c);
    if (r == 0 && c.kind->status)
        r = crud_check_status(&c);
    if (r == 0)
        r = crud_check_delete(&c);
    if (r == 0)
        r = crud_check_watch(&c);
    return r == 0 ? erase_all(&c) : r;
}

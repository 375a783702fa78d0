// SPDX-License-Identifier: Apache-2.0
//
// Reading objects for explanations: the cluster of the question, a pod's life, events about claims.
#include "cmd/why/why_object.h"

#include <time.h>
#include <unistd.h>

#include "cmd/common.h"
#include "cmd/local.h"
#include "cmd/why/why_show.h"
#include "codec/json_writer.h"
#include "plan/life.h"

#include "base/banned.h"

// --- The cluster ---------------------------------------------------------------------------------

// own_config is the file that 'dray up' writes beside its socket; empty: there is none.
static void own_config(const struct why_question *q, struct sbuf *out)
{
    cleanup_sbuf struct sbuf socket = {0};
    if (!q->data_dir && !q->socket && q->any_cluster)
        return;
    local_socket(&socket, q->socket, q->data_dir);
    ptrdiff_t slash = str_rfind_char(sbuf_str(&socket), '/');
    sbuf_add(out, slash < 0 ? STR(".") : str_upto(sbuf_str(&socket), (size_t)slash));
    sbuf_addz(out, "/admin.kubeconfig");
    if (access(out->p, R_OK) != 0)
        sbuf_clear(out);
}

int why_source_open(struct why_source *s, struct err *err)
{
    const struct why_question *q = s->question;
    const char *asked = common.kubeconfig;
    cleanup_sbuf struct sbuf own = {0};
    if (s->open)
        return 0;
    if (!q->kubeconfig && !q->context)
        own_config(q, &own);
    if (own.n)
        common.kubeconfig = own.p;
    int r = common_open(&s->cluster, err);
    common.kubeconfig = asked;
    s->open = r == 0;
    return r;
}

int why_source_get(struct why_source *s, const char *target, struct json_doc *ret, struct err *err)
{
    cleanup_sbuf struct sbuf body = {0};
    const struct json_options whole = {.max_bytes = SIZE_MAX};
    int r = why_source_open(s, err);
    if (r == 0)
        r = cluster_get(&s->cluster, target, &body, err);
    s->forbidden = r == -ERR_FORBIDDEN;
    // The document may point into its text.
    return r < 0 ? r : json_parse(arena_str(&s->arena, sbuf_str(&body)), &whole, ret, err);
}

static bool why_object_get(void *arg, const char *target, struct json_doc *ret)
{
    return why_source_get(arg, target, ret, NULL) == 0;
}

static bool why_object_is_forbidden(void *arg)
{
    const struct why_source *s = arg;
    return s->forbidden;
}

// --- Pods ----------------------------------------------------------------------------------------

int why_object_life(struct why_source *s, struct str namespace, struct str name, struct sbuf *out,
                    struct err *err)
{
    struct json_doc pod = {0};
    cleanup_sbuf struct sbuf target = {0};
    sbuf_addf(&target, "/api/v1/namespaces/%.*s/pods/%.*s", STR_ARG(namespace), STR_ARG(name));
    int r = why_source_get(s, target.p, &pod, err);
    if (r == 0) {
        const struct life_source life = {.get = why_object_get,
                                         .forbidden = why_object_is_forbidden,
                                         .arg = s,
                                         .pod = pod.root,
                                         .now_s = (int64_t)time(NULL)};
        (void)life_explain(&life, out);
    }
    json_doc_done(&pod);
    return r;
}

// --- Events --------------------------------------------------------------------------------------

static void add_event_remedy(struct json_writer *w, const struct why_event *event)
{
    json_write_array_in(w, "urgentAdvice");
    if (event->advice.n)
        json_write_str(w, sbuf_str(&event->advice));
    json_write_array_end(w);
}

int why_object_add_events(struct str events, struct str namespace, struct sbuf *answer)
{
    cleanup_json_doc struct json_doc list = {0}, doc = {0};
    cleanup_sbuf struct sbuf out = {0};
    struct why_event event = {0};
    if (!events.n || json_parse(events, NULL, &list, NULL) < 0 ||
        json_parse(sbuf_str(answer), NULL, &doc, NULL) < 0)
        return 0;
    why_show_read_events(list.root, namespace, &event);
    if (event.cause.n) {
        struct json_writer w = {.out = &out};
        json_write_object_begin(&w);
        json_obj_foreach(doc.root, k, v) {
            if (str_eqz(json_str(k), "urgentAdvice"))
                continue;
            json_write_key(&w, json_str(k));
            if (str_eqz(json_str(k), "cause"))
                json_write_str(&w, event.cause);
            else
                json_write_value(&w, v);
        }
        add_event_remedy(&w, &event);
        json_write_object_end(&w);
        sbuf_clear(answer);
        sbuf_add(answer, sbuf_str(&out));
    }
    sbuf_done(&event.advice);
    return 0;
}

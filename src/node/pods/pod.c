// SPDX-License-Identifier: Apache-2.0
//
// Helpers on one pod for all files of the life cycle: calls under way, accessors, events, runs of
// containers and their back-off.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/backoff.h"
#include "base/mem.h"
#include "node/pods/pods_int.h"

#include "base/banned.h"

// --- Calls ---------------------------------------------------------------------------------------

struct pod_call *pod_call_new(struct pod *p, struct pod_container *c)
{
    struct pod_call *call = xcalloc(1, sizeof(*call));
    *call = (struct pod_call){.pod = p, .container = c, .begun_ns = exec_now_ns(p->owner->exec)};
    list_push_back(&p->calls, &call->node);
    return call;
}

bool pod_call_take(void *arg, struct pod_call *ret)
{
    struct pod_call *call = arg;
    bool there = list_linked(&call->node);
    list_remove(&call->node);
    *ret = *call;
    free(call->text);
    ret->text = NULL;
    free(call);
    return there;
}

void pod_text_set(char **at, const char *text)
{
    free(*at);
    *at = text ? xstrndup(text, strlen(text)) : NULL;
}

// --- Accessors -----------------------------------------------------------------------------------

const struct api_pod *pod_spec_of(const struct pod *p)
{
    return p->object->object.value;
}

const struct api_container *pod_container_spec(const struct pod_container *c)
{
    const struct api_pod_spec *s = &pod_spec_of(c->pod)->spec;
    return c->kind == POD_DEBUG  ? c->debug
           : c->kind == POD_MAIN ? &s->containers.p[c->index]
                                 : &s->init_containers.p[c->index];
}

struct pod_container *pod_container_named(struct pod *p, struct str name)
{
    for (size_t i = 0; i < p->containers_len; i++)
        if (str_eqz(name, p->containers[i]->name))
            return p->containers[i];
    return NULL;
}

void pod_wake(struct pod *p, int64_t delay_ns)
{
    int64_t due = exec_now_ns(p->owner->exec) + delay_ns;
    if (!exec_timer_armed(&p->wake) || p->wake.due_ns > due)
        exec_timer_start(p->owner->exec, &p->wake, delay_ns);
}

void pod_directory(const struct pod *p, struct sbuf *out)
{
    sbuf_addf(out, "%s/pods/%s", p->owner->options.data_dir, p->uid_text);
}

void pod_log_directory(const struct pod *p, struct sbuf *out)
{
    sbuf_addf(out, "%s/%.*s_%.*s_%s", p->owner->options.log_dir,
              STR_ARG(p->object->meta->namespace), STR_ARG(p->object->meta->name), p->uid_text);
}

static void ERR_PRINTF(5, 0) pod_record_event(struct pod *p, struct str field, struct str type,
                                              const char *reason, const char *fmt, va_list ap)
{
    char text[1024];
    if (!p->owner->options.events)
        return;
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    const struct api_object_meta *m = p->object->meta;
    const struct api_object_reference ref = {.kind = STR("Pod"),
                                             .api_version = STR("v1"),
                                             .namespace = m->namespace,
                                             .name = m->name,
                                             .uid = m->uid,
                                             .resource_version = m->resource_version,
                                             .field_path = field};
    events_record_ref(p->owner->options.events, &ref, type, str_z(reason), str_z(text));
}

void pod_add_event(struct pod *p, struct str type, const char *reason, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    pod_record_event(p, (struct str){0}, type, reason, fmt, ap);
    va_end(ap);
}

void pod_container_event(struct pod_container *c, struct str type, const char *reason,
                         const char *fmt, ...)
{
    cleanup_sbuf struct sbuf field = {0};
    va_list ap;
    sbuf_addf(&field, "spec.%s{%s}",
              c->kind == POD_MAIN    ? "containers"
              : c->kind == POD_DEBUG ? "ephemeralContainers"
                                     : "initContainers",
              c->name);
    va_start(ap, fmt);
    pod_record_event(c->pod, sbuf_str(&field), type, reason, fmt, ap);
    va_end(ap);
}

int64_t pod_backoff_next(struct pod_backoff *b, int64_t failed_ns, int64_t first_ns, int64_t max_ns)
{
    const struct backoff_policy p = {.first_ns = first_ns, .max_ns = max_ns};
    if (failed_ns - b->updated_ns > 2 * max_ns)
        b->delay_ns = 0;
    b->delay_ns = backoff_grow_ns(&p, b->delay_ns);
    b->updated_ns = failed_ns;
    return b->delay_ns;
}

// --- Runs of containers --------------------------------------------------------------------------

void pod_run_done(struct pod_run *r)
{
    free(r->id);
    free(r->sandbox_id);
    free(r->image);
    free(r->image_id);
    free(r->reason);
    free(r->message);
    *r = (struct pod_run){0};
}

char *pod_text_copy(struct str s)
{
    return xstrndup(s.n ? s.p : "", s.n);
}

void pod_run_set(struct pod_run *to, const struct runtime_container_status *s)
{
    bool same = to->id && str_eqz(s->id, to->id);
    if (!same)
        pod_run_done(to);
    char *reason = same ? take_ptr(to->reason) : NULL;
    char *message = same ? take_ptr(to->message) : NULL;
    bool read = same && to->message_read;
    if (same) {
        free(to->id);
        free(to->sandbox_id);
        free(to->image);
        free(to->image_id);
    }
    *to = (struct pod_run){
        .id = pod_text_copy(s->id),
        .sandbox_id = pod_text_copy(s->pod_id),
        .attempt = s->attempt,
        .state = s->state,
        .image = pod_text_copy(s->image),
        .image_id = pod_text_copy(s->image_id),
        .started_ns = s->started_ns,
        .finished_ns = s->finished_ns,
        .exit_code = s->exit_code,
        .signal = s->signal,
        .oom_killed = s->oom_killed,
        .message_read = read,
        .reason = reason,
        .message = message,
    };
    if (!to->message && s->message.n)
        to->message = pod_text_copy(s->message);
}

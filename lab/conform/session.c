// SPDX-License-Identifier: Apache-2.0
//
// A session of conformance checks with an API server: requests with a time limit, evidence, and the
// result of the running check.
#include "lab/conform/session.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "client/kubeconfig.h"
#include "client/remote.h"
#include "net/loop.h"

#include "base/banned.h"

#define CALL_PATIENCE_S 90
#define LOOK_MS         100

static volatile sig_atomic_t interrupted;

void conform_interrupt(void)
{
    interrupted = 1;
}

int64_t session_now_ns(void)
{
    return clock_wall_ns(clock_system());
}

// --- The client's thread -------------------------------------------------------------------------

struct wire {
    struct loop *loop;
    struct client *client;
    struct kubeconfig config;
    pthread_t thread;
    bool has_thread;
};

// A request on its way. The second of its two holders frees it.
struct job {
    pthread_mutex_t lock;
    pthread_cond_t answered;
    struct wire *wire;
    char *path, *body;
    const char *method, *type;
    bool done, left;
    int code;
    struct err err;
    struct sbuf answer;
};

static void job_free(struct job *j)
{
    (void)pthread_mutex_destroy(&j->lock);
    (void)pthread_cond_destroy(&j->answered);
    sbuf_done(&j->answer);
    free(j->path);
    free(j->body);
    free(j);
}

static void session_on_answer(void *arg, int code, const struct err *err, struct str body)
{
    struct job *j = arg;
    (void)pthread_mutex_lock(&j->lock);
    j->code = code;
    if (err)
        j->err = *err;
    sbuf_add(&j->answer, body);
    j->done = true;
    bool left = j->left;
    (void)pthread_cond_signal(&j->answered);
    (void)pthread_mutex_unlock(&j->lock);
    if (left)
        job_free(j);
}

static void send_on_loop(void *arg)
{
    struct job *j = arg;
    client_remote_request(j->wire->client,
                          &(struct client_raw_request){.method = j->method,
                                                       .target = str_z(j->path),
                                                       .content_type = str_z(j->type),
                                                       .body = str_z(j->body),
                                                       .done = session_on_answer,
                                                       .arg = j});
}

static void *run_loop(void *arg)
{
    loop_run(((struct wire *)arg)->loop);
    return NULL;
}

static struct timespec in_ms(int64_t ms)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_REALTIME, &t);
    int64_t ns = t.tv_nsec + ms * CLOCK_NS_PER_MS;
    t.tv_sec += (time_t)(ns / CLOCK_NS_PER_SEC);
    t.tv_nsec = (long)(ns % CLOCK_NS_PER_SEC);
    return t;
}

// Waits for the answer, an interrupt, or the end of patience. False: no caller waits any more.
static bool session_await_job(struct session *s, struct job *j)
{
    (void)pthread_mutex_lock(&j->lock);
    for (int64_t i = 0; !j->done && i < CALL_PATIENCE_S * 1000 / LOOK_MS; i++) {
        struct timespec until = in_ms(LOOK_MS);
        (void)pthread_cond_timedwait(&j->answered, &j->lock, &until);
        if (interrupted && !s->cleaning)
            break;
    }
    bool done = j->done;
    j->left = !done;
    (void)pthread_mutex_unlock(&j->lock);
    return done;
}

int session_open(struct session *s, struct err *err)
{
    struct wire *w = xcalloc(1, sizeof(*w));
    struct kubeconfig_target target = {0};
    s->wire = w;
    int r = kubeconfig_find(&w->config, s->o->kubeconfig, s->o->context, &target, err);
    if (r == 0)
        r = loop_new(&w->loop, err);
    const struct client_remote_options how = {.target = &target,
                                              .user_agent = STR("dray-conformance")};
    if (r == 0)
        r = client_remote_new(w->loop, &how, &w->client, err);
    if (r == 0 && pthread_create(&w->thread, NULL, run_loop, w) != 0)
        r = err_set(err, EAGAIN, "no thread");
    if (r == 0) {
        w->has_thread = true;
        s->report->server = arena_str(s->arena, target.server);
    }
    return r;
}

static void stop_on_loop(void *arg)
{
    loop_stop(((struct wire *)arg)->loop);
}

// Calls that are under way are cancelled, and only then the loop ends.
static void end_on_loop(void *arg)
{
    struct wire *w = arg;
    client_free(w->client);
    exec_post(loop_exec(w->loop), stop_on_loop, w);
}

void session_close(struct session *s)
{
    struct wire *w = s->wire;
    if (!w)
        return;
    if (w->has_thread) {
        exec_post(loop_exec(w->loop), end_on_loop, w);
        (void)pthread_join(w->thread, NULL);
    } else if (w->client) {
        client_free(w->client);
    }
    if (w->loop)
        loop_free(w->loop);
    kubeconfig_done(&w->config);
    free(w);
    s->wire = NULL;
}

// --- Calls ---------------------------------------------------------------------------------------

static struct answer session_call_server(struct session *s, const char *method, const char *path,
                                         const char *type, const char *body)
{
    struct answer a = {.code = -ECANCELED, .why = STR("interrupted")};
    if (interrupted && !s->cleaning)
        return a;
    struct job *j = xcalloc(1, sizeof(*j));
    (void)pthread_mutex_init(&j->lock, NULL);
    (void)pthread_cond_init(&j->answered, NULL);
    j->wire = s->wire;
    j->method = method;
    j->type = type ? type : "";
    j->path = xstrndup(path, strlen(path));
    j->body = xstrndup(body ? body : "", body ? strlen(body) : 0);
    exec_post(loop_exec(s->wire->loop), send_on_loop, j);
    if (!session_await_job(s, j)) {
        if (!interrupted || s->cleaning)
            a = (struct answer){.code = -ERR_TIMEOUT, .why = STR("no answer")};
        return a;
    }
    struct json_doc *doc = arena_one(s->arena, struct json_doc);
    static const struct json_options options = {.max_bytes = (size_t)64 << 20,
                                                .duplicates = JSON_DUPLICATES_KEEP};
    a = (struct answer){.code = j->code,
                        .why = arena_str(s->arena, str_z(j->code ? j->err.msg : "")),
                        .body = arena_str(s->arena, sbuf_str(&j->answer))};
    struct str text = str_trim(a.body);
    if (text.n && (text.p[0] == '{' || text.p[0] == '[') &&
        json_parse(a.body, &options, doc, NULL) == 0) {
        vec_push(&s->report->docs, *doc);
        a.root = doc->root;
    }
    job_free(j);
    return a;
}

struct answer session_call(struct session *s, const char *method, const char *path,
                           const char *type, const char *body)
{
    int64_t start = clock_mono_ns(clock_system());
    struct answer a = session_call_server(s, method, path, type, body);
    int64_t ms = (clock_mono_ns(clock_system()) - start) / CLOCK_NS_PER_MS;
    cleanup_sbuf struct sbuf text = {0};
    sbuf_addf(&text, "%s %s: %s (%lld ms)", method, path, a.code == 0 ? "ok" : err_reason(-a.code),
              (long long)ms);
    if (a.code != 0)
        sbuf_addf(&text, " %.*s", STR_ARG(a.why));
    session_note(s, "request", sbuf_str(&text));
    return a;
}

struct answer session_get(struct session *s, const char *path)
{
    return session_call_server(s, "GET", path, NULL, NULL);
}

bool session_pause(struct session *s, int64_t ms)
{
    const struct timespec t = {.tv_sec = (time_t)(ms / 1000),
                               .tv_nsec = (long)(ms % 1000 * CLOCK_NS_PER_MS)};
    if (interrupted && !s->cleaning)
        return false;
    (void)nanosleep(&t, NULL);
    return !interrupted || s->cleaning;
}

struct str session_at(const yyjson_val *v, const char *path)
{
    bool whole = false;
    const yyjson_val *at = v ? json_at_path(v, str_z(path), &whole) : NULL;
    return at && whole && json_is_string(at) ? json_str(at) : STR("");
}

const char *session_json(struct session *s, const char *text)
{
    cleanup_sbuf struct sbuf out = {0};
    sbuf_add_json_str(&out, str_z(text), false);
    return arena_str(s->arena, sbuf_str(&out)).p;
}

const char *session_text(struct session *s, const char *format, ...)
{
    char *made = NULL;
    va_list ap;
    va_start(ap, format);
    int n = vasprintf(&made, format, ap);
    va_end(ap);
    if (n < 0)
        abort();
    const char *kept = arena_str(s->arena, str_make(made, (size_t)n)).p;
    free(made);
    return kept;
}

// --- What a check writes down --------------------------------------------------------------------

void session_note(struct session *s, const char *type, struct str text)
{
    if (!s->outcome)
        return;
    struct str kept = arena_str(s->arena, str_upto(text, CONFORM_EVIDENCE_MAX));
    const struct conform_evidence e = {session_now_ns(), str_z(type), kept};
    vec_push_arena(s->arena, &s->outcome->evidence, e);
}

#define FORMATTED(s, format, ret)                                 \
    do {                                                          \
        va_list formatted_ap;                                     \
        char *formatted_text = NULL;                              \
        va_start(formatted_ap, format);                           \
        if (vasprintf(&formatted_text, format, formatted_ap) < 0) \
            abort();                                              \
        va_end(formatted_ap);                                     \
        (ret) = arena_str((s)->arena, str_z(formatted_text));     \
        free(formatted_text);                                     \
    } while (0)

void session_notef(struct session *s, const char *format, ...)
{
    struct str text;
    FORMATTED(s, format, text);
    session_note(s, "note", text);
}

int session_fail(struct session *s, const char *format, ...)
{
    FORMATTED(s, format, s->outcome->why);
    s->outcome->result = CONFORM_FAIL;
    return -1;
}

int session_skip(struct session *s, const char *format, ...)
{
    FORMATTED(s, format, s->outcome->why);
    s->outcome->result = CONFORM_SKIP;
    return -1;
}

int session_expect(struct session *s, const struct answer *a, int code, const char *what)
{
    if (a->code == code)
        return 0;
    if (a->code == -ECANCELED)
        return session_skip(s, "interrupted");
    return session_fail(s, "%s: %s wanted, got %s%s%.*s", what,
                        code ? err_reason(-code) : "success",
                        a->code ? err_reason(-a->code) : "success", a->why.n ? ": " : "",
                        STR_ARG(a->why));
}

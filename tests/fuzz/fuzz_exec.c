// SPDX-License-Identifier: Apache-2.0
//
// exec and attach at the node's endpoint: whatever a client sends on its channels, and whatever the
// command does meanwhile, input reaches the command only where it was asked for and before its end,
// a terminal's size is sensible, and the session ends exactly once.
//
// The first two bytes choose the request. Then each event is a byte and what belongs to it: raw
// bytes of the connection, a whole message on a channel, output, the end of the command, time, the
// end of the connection.
#include "fuzz.h"
#include "http_memory.h"
#include "net/websocket.h"
#include "node/endpoint/kubelet_http_int.h"
#include "node/runtime/runtime.h"

#include "base/banned.h"

#define FUZZ_EXEC_EVENTS 200

struct runtime_exec {
    struct runtime_exec_options o;
    bool ended_input, canceled;
    size_t queued;
};

struct fuzz_exec {
    struct memory *m;
    struct kubelet_http endpoint;
    struct runtime runtime;
    struct runtime_exec *x; // NULL: no command runs
    struct str rest;
    struct ws client;
    struct rng_seeded mask;
    bool attach;
};

static struct fuzz_exec *fuzz_exec_now; // the runtime's calls have no argument of their own

static struct runtime_exec *fuzz_exec_run(struct runtime *r, const struct runtime_exec_options *o)
{
    assert(r == &fuzz_exec_now->runtime && !fuzz_exec_now->x);
    assert(fuzz_exec_now->attach || o->command_len > 0);
    struct runtime_exec *x = xcalloc(1, sizeof(*x));
    x->o = *o;
    fuzz_exec_now->x = x;
    return x;
}

static void fuzz_exec_write(struct runtime_exec *x, struct str bytes)
{
    assert(x == fuzz_exec_now->x && x->o.stdin && !x->ended_input);
    x->ended_input = !bytes.p;
    x->queued += bytes.n;
}

static void fuzz_exec_resize(struct runtime_exec *x, uint16_t columns, uint16_t rows)
{
    assert(x == fuzz_exec_now->x && x->o.tty && columns > 0 && rows > 0);
}

static size_t fuzz_exec_queued(const struct runtime_exec *x)
{
    return x->queued;
}

static void fuzz_exec_hold(struct runtime_exec *x, bool hold)
{
    (void)hold;
    assert(x == fuzz_exec_now->x);
}

static void fuzz_exec_cancel(struct runtime_exec *x)
{
    assert(x == fuzz_exec_now->x);
    x->canceled = true;
}

static const struct runtime_ops fuzz_exec_ops = {
    .exec = fuzz_exec_run,
    .attach = fuzz_exec_run,
    .exec_write = fuzz_exec_write,
    .exec_resize = fuzz_exec_resize,
    .exec_queued = fuzz_exec_queued,
    .exec_hold = fuzz_exec_hold,
    .exec_cancel = fuzz_exec_cancel,
};

static int fuzz_exec_find(void *arg, struct str namespace, struct str pod, struct str uid,
                          struct str container, struct kubelet_container *ret, struct err *err)
{
    (void)arg, (void)namespace, (void)pod, (void)uid, (void)container, (void)err;
    *ret = (struct kubelet_container){.id = STR("id"), .running = true};
    return 0;
}

static void fuzz_exec_handle(void *arg, struct http_request *q)
{
    struct fuzz_exec *f = arg;
    struct kubelet_target t = {.namespace = STR("n"), .pod = STR("p"), .container = STR("c")};
    query_parse(q->query, q->arena, &t.query);
    kubelet_exec(&f->endpoint, q, &t, f->attach);
}

static uint8_t fuzz_exec_byte(struct fuzz_exec *f)
{
    uint8_t c = f->rest.n ? (uint8_t)f->rest.p[0] : 0;
    f->rest = str_from(f->rest, f->rest.n ? 1 : 0);
    return c;
}

static struct str fuzz_exec_text(struct fuzz_exec *f)
{
    size_t n = fuzz_exec_byte(f);
    struct str s = str_upto(f->rest, n < f->rest.n ? n : f->rest.n);
    f->rest = str_from(f->rest, s.n);
    return s;
}

static void fuzz_exec_end(struct fuzz_exec *f, int code, int32_t exit_code)
{
    struct runtime_exec *x = f->x;
    const struct err err = {.msg = "a reason"};
    if (!x)
        return;
    f->x = NULL;
    x->o.done(x->o.arg, code, exit_code, code < 0 ? &err : NULL);
    free(x);
}

static void fuzz_exec_message(struct fuzz_exec *f)
{
    static const uint8_t channels[] = {0, 1, 2, 3, 4, 255, 5, 128};
    cleanup_sbuf struct sbuf frame = {0};
    char channel = (char)channels[fuzz_exec_byte(f) % array_len(channels)];
    ws_write(&f->client, WS_BINARY, str_make(&channel, 1), fuzz_exec_text(f), &frame);
    memory_feed(f->m, sbuf_str(&frame));
}

static void fuzz_exec_event(struct fuzz_exec *f)
{
    uint8_t what = fuzz_exec_byte(f);
    if (f->x && f->x->canceled && what & 0x80)
        fuzz_exec_end(f, -ERR_UNAVAILABLE, 0);
    switch (what % 8) {
    case 0:
        memory_feed(f->m, fuzz_exec_text(f));
        break;
    case 1:
    case 2:
        fuzz_exec_message(f);
        break;
    case 3:
    case 4: {
        struct str bytes = fuzz_exec_text(f);
        if (f->x)
            f->x->o.output(f->x->o.arg, what % 8 == 3 ? 1 : 2, bytes);
        break;
    }
    case 5: {
        int32_t code = fuzz_exec_byte(f);
        fuzz_exec_end(f, code == 77 ? -ERR_NOT_FOUND : 0, code);
        break;
    }
    case 6:
        if (f->x)
            f->x->queued = what & 0x40 ? (size_t)4 << 20 : 0;
        exec_sim_run(f->m->sim, f->m->clock.mono + CLOCK_NS_PER_SEC);
        break;
    default:
        if (what & 0x40 && f->m->conn)
            conn_close(&f->m->conn->conn);
        break;
    }
    http_server_flush(&f->m->server);
}

static void fuzz_exec_request(struct fuzz_exec *f)
{
    static const char *const protocols[] = {"v5.channel.k8s.io", "v4.channel.k8s.io",
                                            "channel.k8s.io", "v9.channel.k8s.io"};
    uint8_t how = fuzz_exec_byte(f);
    f->attach = how & 1;
    cleanup_sbuf struct sbuf text = {0};
    sbuf_addf(&text,
              "GET /exec/n/p/c?command=a%s%s%s%s HTTP/1.1\r\nHost: n\r\nConnection: Upgrade\r\n"
              "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
              "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
              "Sec-WebSocket-Protocol: %s\r\n\r\n",
              how & 2 ? "&input=1" : "", how & 4 ? "&output=1" : "", how & 8 ? "&error=1" : "",
              how & 16 ? "&tty=1" : "", protocols[fuzz_exec_byte(f) % array_len(protocols)]);
    memory_feed(f->m, sbuf_str(&text));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct http_limits limits = {0};
    struct fuzz_exec f = {.rest = str_make((const char *)data, size),
                          .runtime.ops = &fuzz_exec_ops};
    fuzz_exec_now = &f;
    f.m = memory_new(&limits, &h1_ops);
    f.m->server.handle = fuzz_exec_handle;
    f.m->server.arg = &f;
    rng_seeded_init(&f.mask, 1);
    f.client.rng = &f.mask.rng;
    f.endpoint = (struct kubelet_http){
        .o = {.runtime = &f.runtime, .find = fuzz_exec_find},
        .exec = exec_sim_exec(f.m->sim),
    };
    list_init(&f.endpoint.streams);
    fuzz_exec_request(&f);
    for (int i = 0; i < FUZZ_EXEC_EVENTS && f.rest.n; i++)
        fuzz_exec_event(&f);
    fuzz_exec_end(&f, 0, 0);
    http_server_flush(&f.m->server);
    if (f.m->conn)
        conn_close(&f.m->conn->conn);
    http_server_flush(&f.m->server);
    assert(list_empty(&f.endpoint.streams) && !f.x);
    ws_done(&f.client);
    memory_free(f.m);
    return 0;
}

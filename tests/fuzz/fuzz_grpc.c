// SPDX-License-Identifier: Apache-2.0
//
// HTTP/2 frames into a gRPC server's and a gRPC client's connection over memory, on a fake clock: every
// call has exactly one end, nothing leaks, what is held is bounded. The first byte chooses the end, the
// size of the pieces and whether time passes between them.
#include <assert.h>
#include <stdlib.h>

#include "fuzz.h"
#include "net/grpc/grpc_int.h"

#include "base/banned.h"

enum { CALLS = 4 };

static const struct grpc_limits limits = {
    .message_bytes = 1000, .header_bytes = 1000, .queued_bytes = 500, .streams = 8};

struct memory {
    struct clock_fake clock;
    struct rng_seeded rng;
    struct exec_sim *sim;
    struct grpc_conn conn;
    bool closed;
    size_t handed, ended; // calls that handlers got, and that ended
    int done[CALLS];
    size_t received;
};

static void io_flush(struct grpc_conn *c)
{
    outq_drop(&c->out, c->out.bytes);
}

static void io_close(struct grpc_conn *c)
{
    struct memory *m = container_of(c, struct memory, conn);
    assert(!m->closed);
    m->closed = true;
}

static const struct grpc_conn_io io = {.flush = io_flush, .close = io_close};

// --- Server --------------------------------------------------------------------------------------

struct held {
    struct memory *memory;
    struct grpc_call *call;
    size_t left;
};

static void taken_back(void *arg)
{
    struct held *h = arg;
    h->memory->ended++;
}

static void go_on(void *arg)
{
    struct held *h = arg;
    static const char text[300] = {'x'};
    bool more = true;
    while (more && h->left) {
        h->left--;
        more = grpc_send(h->call, str_make(text, sizeof(text)));
    }
    if (h->left == 0) {
        h->memory->ended++;
        grpc_finish(h->call, GRPC_OK, (struct str){0});
    }
}

// /h holds, /s streams, /f fails, /e echoes.
static void handle(void *arg, struct grpc_call *call)
{
    struct memory *m = arg;
    struct held *h = arena_one(call->arena, struct held);
    *h = (struct held){m, call, 10};
    m->handed++;
    assert(call->request.n <= limits.message_bytes);
    call->closed = taken_back;
    call->drained = go_on;
    call->arg = h;
    switch (call->method.p[1]) {
    case 'h':
        break;
    case 's':
        go_on(h);
        break;
    case 'f':
        m->ended++;
        grpc_finish(call, GRPC_ABORTED, call->request);
        break;
    default:
        m->ended++;
        grpc_add_trailer(call, STR("x-tail"), STR("1"));
        grpc_reply(call, call->request);
    }
}

// --- Client --------------------------------------------------------------------------------------

static void on_received(void *arg, struct str message)
{
    (void)arg;
    assert(message.n <= limits.message_bytes);
}

static void on_done(void *arg, const struct grpc_result *r)
{
    int *done = arg;
    assert(*done == 0);
    *done = 1;
    assert(r->status == GRPC_OK || r->response.n == 0);
}

static void start_calls(struct memory *m, struct grpc_client *c)
{
    for (int i = 0; i < CALLS; i++) {
        const struct grpc_request q = {.method = STR("/e"),
                                       .message = STR("request"),
                                       .timeout_ns = i == 3 ? CLOCK_NS_PER_SEC : 0,
                                       .received = i & 1 ? on_received : NULL,
                                       .done = on_done,
                                       .arg = &m->done[i]};
        struct grpc_client_call *k = grpc_client_call(c, &q);
        if (i == 1)
            grpc_client_pause(k, true);
    }
}

// --- Both ----------------------------------------------------------------------------------------

static void feed(struct memory *m, struct str bytes, uint8_t how)
{
    size_t piece = 1 + (size_t)(how & 0x1f) * 8;
    while (bytes.n && !m->conn.ended) {
        size_t n = how & 0x20 ? bytes.n : piece;
        grpc_conn_input(&m->conn, str_upto(bytes, n));
        bytes = str_from(bytes, n);
        exec_sim_run(m->sim, m->clock.mono + (how & 0x40 ? CLOCK_NS_PER_SEC : 0));
        assert(*m->conn.in_bytes <= 16 * 1024 + 8 * (size_t)256 * 1024);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    struct memory *m = xcalloc(1, sizeof(*m));
    struct grpc_server *server = NULL;
    struct grpc_client *client = NULL;
    clock_fake_init(&m->clock, 1000000000 * CLOCK_NS_PER_SEC);
    m->clock.mono = CLOCK_NS_PER_SEC;
    rng_seeded_init(&m->rng, 1);
    m->sim = exec_sim_new(&m->clock, &m->rng.rng);
    m->conn.io = &io;
    if (data[0] & 0x80) {
        const struct grpc_client_options o = {.path = "memory", .limits = limits};
        client = grpc_client_new_on(exec_sim_exec(m->sim), &o);
        grpc_client_adopt(client, &m->conn);
        start_calls(m, client);
        feed(m, STR("\0\0\0\4\0\0\0\0\0"), 0x20);
    } else {
        server = grpc_server_new_on(exec_sim_exec(m->sim), &limits);
        static const char *const methods[] = {"/h", "/s", "/f", "/e"};
        for (size_t i = 0; i < array_len(methods); i++)
            grpc_server_handle(server, str_z(methods[i]), handle, m);
        grpc_server_adopt(server, &m->conn);
        feed(m, STR("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"), 0x20);
    }
    feed(m, str_make((const char *)data + 1, size - 1), data[0]);
    exec_sim_run(m->sim, m->clock.mono + 2 * CLOCK_NS_PER_SEC);
    grpc_client_free(client);
    grpc_server_free(server);
    for (int i = 0; client && i < CALLS; i++)
        assert(m->done[i] == 1);
    assert(m->handed == m->ended);
    assert(m->closed);
    grpc_conn_done(&m->conn);
    exec_sim_free(m->sim);
    free(m);
    return 0;
}

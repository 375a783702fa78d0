// SPDX-License-Identifier: Apache-2.0
//
// gRPC server and client in one process, over unix sockets, on one loop.
#include <unistd.h>

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "../interop/grpc/methods.h"
#include "net/grpc.h"
#include "unit.h"

#include "base/banned.h"

#define SECOND CLOCK_NS_PER_SEC

struct world {
    struct loop *loop;
    struct grpc_server *server;
    struct grpc_client *client;
    struct methods methods;
    char dir[32];
    char path[64];
    int ups, downs, stopped;
};

// What a call came to.
struct outcome {
    struct world *world;
    struct grpc_client_call *call;
    int done, messages, pause_every;
    bool cancel_at_first, free_at_first;
    enum grpc_status status;
    struct sbuf why, response, head, tail;
};

static void on_state(void *arg, bool connected)
{
    struct world *w = arg;
    if (connected)
        w->ups++;
    else
        w->downs++;
}

static void serve(struct world *w, const struct grpc_limits *limits)
{
    struct err err = {0};
    w->server = grpc_server_new(w->loop, limits);
    methods_add(w->server, &w->methods);
    if (grpc_server_listen(w->server, w->path, &err) < 0)
        fail_msg("%s", err.msg);
}

static void dial(struct world *w, const struct grpc_limits *limits)
{
    struct grpc_client_options o = {.loop = w->loop,
                                    .path = w->path,
                                    .backoff_min_ns = 20 * CLOCK_NS_PER_MS,
                                    .backoff_max_ns = 100 * CLOCK_NS_PER_MS,
                                    .state = on_state,
                                    .arg = w};
    if (limits)
        o.limits = *limits;
    w->client = grpc_client_new(&o);
}

static void world_init(struct world *w)
{
    *w = (struct world){.dir = "/tmp/grpc-test-XXXXXX"};
    assert_non_null(mkdtemp(w->dir));
    (void)snprintf(w->path, sizeof(w->path), "%s/s.sock", w->dir);
    assert_int_equal(loop_new(&w->loop, NULL), 0);
}

static void world_done(struct world *w)
{
    grpc_client_free(w->client);
    grpc_server_free(w->server);
    loop_free(w->loop);
    (void)unlink(w->path);
    assert_int_equal(rmdir(w->dir), 0);
}

static void stop_loop(void *arg)
{
    struct world *w = arg;
    loop_stop(w->loop);
}

// Runs the loop until *counter is want; fails after 20 s.
static void run_until(struct world *w, const int *counter, int want)
{
    int64_t end_ns = exec_now_ns(loop_exec(w->loop)) + 20 * SECOND;
    while (*counter < want) {
        struct exec_timer tick = {.fn = stop_loop, .arg = w};
        exec_timer_start(loop_exec(w->loop), &tick, 5 * CLOCK_NS_PER_MS);
        loop_run(w->loop);
        exec_timer_stop(loop_exec(w->loop), &tick);
        if (exec_now_ns(loop_exec(w->loop)) > end_ns)
            fail_msg("waited in vain: %d of %d", *counter, want);
    }
    assert_int_equal(*counter, want);
}

static void run_for(struct world *w, int64_t ns)
{
    struct exec_timer tick = {.fn = stop_loop, .arg = w};
    exec_timer_start(loop_exec(w->loop), &tick, ns);
    loop_run(w->loop);
}

static void on_done(void *arg, const struct grpc_result *r)
{
    struct outcome *o = arg;
    o->done++;
    o->call = NULL;
    o->status = r->status;
    sbuf_add(&o->why, r->message);
    sbuf_add(&o->response, r->response);
    for (size_t i = 0; i < r->headers_len; i++)
        sbuf_addf(&o->head, "%.*s=%.*s;", STR_ARG(r->headers[i].name),
                  STR_ARG(r->headers[i].value));
    for (size_t i = 0; i < r->trailers_len; i++)
        sbuf_addf(&o->tail, "%.*s=%.*s;", STR_ARG(r->trailers[i].name),
                  STR_ARG(r->trailers[i].value));
}

static void on_message(void *arg, struct str message)
{
    struct outcome *o = arg;
    uint64_t number = 0;
    struct str head, tail;
    str_cut(message, ' ', &head, &tail);
    assert_int_equal(str_to_u64(head, &number), 0);
    assert_int_equal(number, o->messages);
    o->messages++;
    if (o->cancel_at_first)
        grpc_client_cancel(o->call);
    if (o->free_at_first) {
        grpc_client_free(o->world->client);
        o->world->client = NULL;
    } else if (o->pause_every && o->messages % o->pause_every == 0) {
        grpc_client_pause(o->call, true);
    }
}

static void outcome_clear(struct outcome *o)
{
    sbuf_done(&o->why);
    sbuf_done(&o->response);
    sbuf_done(&o->head);
    sbuf_done(&o->tail);
    *o = (struct outcome){0};
}

static void start_call(struct world *w, struct outcome *o, const char *method, struct str message,
                       int64_t timeout_ns, bool stream)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/test.Peer/%s", method);
    struct grpc_meta meta[] = {{STR("x-in"), STR("some value")}, {STR("grpc-bad"), STR("no")}};
    struct grpc_request q = {.method = str_z(path),
                             .message = message,
                             .meta = meta,
                             .meta_len = array_len(meta),
                             .timeout_ns = timeout_ns,
                             .wait_for_ready = true,
                             .received = stream ? on_message : NULL,
                             .done = on_done,
                             .arg = o};
    o->world = w;
    o->call = grpc_client_call(w->client, &q);
    assert_int_equal(o->done, 0); // never at once
}

static void unary_calls_are_answered(void **state)
{
    (void)state;
    struct world w;
    struct outcome o = {0};
    world_init(&w);
    serve(&w, NULL);
    dial(&w, NULL);
    start_call(&w, &o, "Echo", STR("hello"), 10 * SECOND, false);
    run_until(&w, &o.done, 1);
    assert_int_equal(o.status, GRPC_OK);
    assert_str(sbuf_str(&o.response), "hello");
    assert_non_null(strstr(o.head.p, "x-head=some value;"));
    assert_str(sbuf_str(&o.tail), "x-tail=some value;");
    assert_true(grpc_client_connected(w.client));
    struct stat st;
    assert_int_equal(stat(w.path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    outcome_clear(&o);

    start_call(&w, &o, "Echo", STR(""), 0, false);
    run_until(&w, &o.done, 1);
    assert_int_equal(o.status, GRPC_OK);
    assert_int_equal(o.response.n, 0);
    outcome_clear(&o);

    start_call(&w, &o, "Fail", STR("50% \xc3\xa9\n"), 0, false);
    run_until(&w, &o.done, 1);
    assert_int_equal(o.status, GRPC_NOT_FOUND);
    assert_str(sbuf_str(&o.why), "50% \xc3\xa9\n");
    outcome_clear(&o);

    start_call(&w, &o, "Nothing", STR("x"), 0, false);
    run_until(&w, &o.done, 1);
    assert_int_equal(o.status, GRPC_UNIMPLEMENTED);
    assert_str(sbuf_str(&o.why), "unknown method /test.Peer/Nothing");
    outcome_clear(&o);
    assert_int_equal(w.ups, 1);
    world_done(&w);
}

static void many_calls_at_once_each_have_one_answer(void **state)
{
    (void)state;
    struct world w;
    enum { CALLS = 600 };
    static struct outcome all[CALLS];
    world_init(&w);
    serve(&w, &(struct grpc_limits){.streams = 10});
    dial(&w, NULL);
    for (int i = 0; i < CALLS; i++) {
        char text[16];
        (void)snprintf(text, sizeof(text), "%d", i);
        start_call(&w, &all[i], i % 3 == 0 ? "Fail" : "Echo", str_z(text), 0, false);
    }
    for (int i = 0; i < CALLS; i++) {
        char text[16];
        (void)snprintf(text, sizeof(text), "%d", i);
        run_until(&w, &all[i].done, 1);
        assert_int_equal(all[i].status, i % 3 == 0 ? GRPC_NOT_FOUND : GRPC_OK);
        assert_str(sbuf_str(i % 3 == 0 ? &all[i].why : &all[i].response), text);
        outcome_clear(&all[i]);
    }
    world_done(&w);
}

static void large_messages_pass_up_to_the_limit(void **state)
{
    (void)state;
    struct world w;
    struct outcome o = {0};
    struct sbuf big = {0};
    world_init(&w);
    serve(&w, NULL);
    dial(&w, NULL);
    sbuf_add_repeat(&big, 'b', (size_t)16 << 20);
    start_call(&w, &o, "Echo", sbuf_str(&big), 0, false);
    run_until(&w, &o.done, 1);
    assert_int_equal(o.status, GRPC_OK);
    assert_true(str_eq(sbuf_str(&o.response), sbuf_str(&big)));
    outcome_clear(&o);
    sbuf_addc(&big, 'b'); // the server refuses
    start_call(&w, &o, "Echo", sbuf_str(&big), 0, false);
    run_until(&w, &o.done, 1);
    assert_int_equal(o.status, GRPC_RESOURCE_EXHAUSTED);
    outcome_clear(&o);
    start_call(&w, &o, "Large", STR("16777217"), 0, false); // the client refuses
    run_until(&w, &o.done, 1);
    assert_int_equal(o.status, GRPC_RESOURCE_EXHAUSTED);
    outcome_clear(&o);
    start_call(&w, &o, "Echo", STR("still there"), 0, false);
    run_until(&w, &o.done, 1);
    assert_int_equal(o.status, GRPC_OK);
    outcome_clear(&o);
    sbuf_done(&big);
    world_done(&w);
}

static void streams_come_in_order_and_press_back(void **state)
{
    (void)state;
    struct world w;
    struct outcome o = {.pause_every = 1000};
    world_init(&w);
    serve(&w, &(struct grpc_limits){.queued_bytes = 50000});
    dial(&w, NULL);
    start_call(&w, &o, "Count", STR("5000"), 0, true);
    run_until(&w, &o.messages, 1000);
    run_for(&w, 50 * CLOCK_NS_PER_MS);
    assert_int_equal(o.messages, 1000); // paused
    int drained = w.methods.drained;
    run_for(&w, 50 * CLOCK_NS_PER_MS);
    assert_int_equal(w.methods.drained, drained); // the handler waits as well
    for (int i = 2; i <= 5; i++) {
        grpc_client_pause(o.call, false);
        run_until(&w, &o.messages, 1000 * i);
    }
    assert_int_equal(o.done, 0); // paused at the very last message
    grpc_client_pause(o.call, false);
    run_until(&w, &o.done, 1);
    assert_int_equal(o.status, GRPC_OK);
    assert_true(w.methods.drained > 3);
    assert_int_equal(w.methods.closed, 0);
    outcome_clear(&o);
    start_call(&w, &o, "Count", STR("x"), 0, true);
    run_until(&w, &o.done, 1);
    assert_int_equal(o.status, GRPC_INVALID_ARGUMENT);
    outcome_clear(&o);
    start_call(&w, &o, "Count", STR("2"), 0, false); // a stream where one message was meant
    run_until(&w, &o.done, 1);
    assert_int_equal(o.status, GRPC_INTERNAL);
    outcome_clear(&o);
    world_done(&w);
}

static void deadlines_and_cancellation_reach_the_server(void **state)
{
    (void)state;
    struct world w;
    struct outcome o = {0};
    world_init(&w);
    serve(&w, NULL);
    dial(&w, NULL);
    start_call(&w, &o, "Hang", STR(""), 30 * CLOCK_NS_PER_MS, false);
    run_until(&w, &o.done, 1);
    assert_int_equal(o.status, GRPC_DEADLINE_EXCEEDED);
    run_until(&w, &w.methods.closed, 1);
    outcome_clear(&o);
    start_call(&w, &o, "Hang", STR(""), 0, false);
    run_until(&w, &w.methods.hanging, 2);
    grpc_client_cancel(o.call);
    grpc_client_cancel(o.call);
    assert_int_equal(o.done, 0);
    run_until(&w, &o.done, 1);
    assert_int_equal(o.status, GRPC_CANCELLED);
    run_until(&w, &w.methods.closed, 2);
    outcome_clear(&o);
    o.cancel_at_first = true;
    start_call(&w, &o, "Count", STR("1000000"), 0, true);
    run_until(&w, &o.done, 1);
    assert_int_equal(o.status, GRPC_CANCELLED);
    assert_int_equal(o.messages, 1);
    run_until(&w, &w.methods.closed, 3);
    outcome_clear(&o);
    o.free_at_first = true; // the client goes in its own callback
    start_call(&w, &o, "Count", STR("1000000"), 0, true);
    run_until(&w, &o.done, 1);
    assert_int_equal(o.status, GRPC_CANCELLED);
    run_until(&w, &w.methods.closed, 4);
    outcome_clear(&o);
    world_done(&w);
}

static void lost_connections_are_made_again(void **state)
{
    (void)state;
    struct world w;
    struct outcome o = {0}, early = {0};
    world_init(&w);
    dial(&w, NULL);
    start_call(&w, &early, "Echo", STR("early"), 0, false); // waits for the server
    struct grpc_request q = {.method = STR("/test.Peer/Echo"), .done = on_done, .arg = &o};
    (void)grpc_client_call(w.client, &q); // does not
    run_until(&w, &o.done, 1);
    assert_int_equal(o.status, GRPC_UNAVAILABLE);
    assert_non_null(strstr(o.why.p, w.path));
    outcome_clear(&o);
    assert_int_equal(early.done, 0);
    serve(&w, NULL);
    run_until(&w, &early.done, 1);
    assert_int_equal(early.status, GRPC_OK);
    assert_int_equal(w.ups, 1);
    start_call(&w, &o, "Hang", STR(""), 0, false);
    run_until(&w, &w.methods.hanging, 1);
    grpc_server_free(w.server); // as a crash
    assert_int_equal(w.methods.closed, 1);
    w.server = NULL;
    run_until(&w, &o.done, 1);
    assert_int_equal(o.status, GRPC_UNAVAILABLE);
    run_until(&w, &w.downs, 1);
    outcome_clear(&o);
    outcome_clear(&early);
    serve(&w, NULL);
    start_call(&w, &o, "Echo", STR("again"), 0, false);
    run_until(&w, &o.done, 1);
    assert_int_equal(o.status, GRPC_OK);
    assert_int_equal(w.ups, 2);
    outcome_clear(&o);
    world_done(&w);
}

static void on_stopped(void *arg)
{
    struct world *w = arg;
    w->stopped++;
}

static void a_server_stops_gracefully(void **state)
{
    (void)state;
    struct world w;
    struct outcome slow = {.pause_every = 100}, o = {0};
    world_init(&w);
    serve(&w, NULL);
    dial(&w, NULL);
    start_call(&w, &slow, "Count", STR("5000"), 0, true);
    run_until(&w, &slow.messages, 100);
    grpc_server_stop(w.server, 20 * SECOND, on_stopped, &w);
    run_for(&w, 30 * CLOCK_NS_PER_MS);
    assert_int_equal(w.stopped, 0);
    assert_int_equal(access(w.path, F_OK), -1);
    slow.pause_every = 0;
    grpc_client_pause(slow.call, false);
    run_until(&w, &slow.done, 1); // the call goes on to its end
    assert_int_equal(slow.status, GRPC_OK);
    assert_int_equal(slow.messages, 5000);
    run_until(&w, &w.stopped, 1);
    grpc_server_free(w.server);
    outcome_clear(&slow);
    serve(&w, NULL);
    start_call(&w, &o, "Hang", STR(""), 0, false);
    run_until(&w, &w.methods.hanging, 1);
    grpc_server_stop(w.server, 20 * CLOCK_NS_PER_MS, on_stopped, &w); // patience has an end
    run_until(&w, &o.done, 1);
    assert_int_equal(o.status, GRPC_UNAVAILABLE);
    run_until(&w, &w.stopped, 2);
    outcome_clear(&o);
    world_done(&w);
}

// A server that takes connections and says nothing.
static void silence_is_noticed(void **state)
{
    (void)state;
    struct world w;
    struct outcome o = {0};
    world_init(&w);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    memcpy(a.sun_path, w.path, strlen(w.path));
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    assert_int_equal(listen(fd, 5), 0);
    dial(&w, &(struct grpc_limits){.connect_timeout_ns = 30 * CLOCK_NS_PER_MS});
    struct grpc_request q = {.method = STR("/test.Peer/Echo"), .done = on_done, .arg = &o};
    (void)grpc_client_call(w.client, &q);
    run_until(&w, &o.done, 1);
    assert_int_equal(o.status, GRPC_UNAVAILABLE);
    assert_non_null(strstr(o.why.p, "introduce"));
    outcome_clear(&o);
    grpc_client_free(w.client);
    (void)close(fd);
    (void)unlink(w.path);

    serve(&w, NULL); // keep-alive: answered pings keep a quiet call alive
    dial(&w, &(struct grpc_limits){.keepalive_ns = 20 * CLOCK_NS_PER_MS,
                                   .keepalive_timeout_ns = 10 * SECOND});
    start_call(&w, &o, "Hang", STR(""), 300 * CLOCK_NS_PER_MS, false);
    run_until(&w, &o.done, 1);
    assert_int_equal(o.status, GRPC_DEADLINE_EXCEEDED);
    outcome_clear(&o);
    world_done(&w);
}

// Introduces itself as an HTTP/2 server and then is silent: a ping finds out.
static void a_ping_without_answer_ends_the_connection(void **state)
{
    (void)state;
    struct world w;
    struct outcome o = {0};
    world_init(&w);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    memcpy(a.sun_path, w.path, strlen(w.path));
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    assert_int_equal(listen(fd, 5), 0);
    dial(&w, &(struct grpc_limits){.keepalive_ns = 20 * CLOCK_NS_PER_MS,
                                   .keepalive_timeout_ns = 20 * CLOCK_NS_PER_MS});
    run_for(&w, 5 * CLOCK_NS_PER_MS);
    int peer = accept(fd, NULL, NULL);
    assert_true(peer >= 0);
    assert_int_equal(write(peer, "\0\0\0\4\0\0\0\0\0", 9), 9);
    run_until(&w, &w.ups, 1);
    start_call(&w, &o, "Echo", STR("anyone?"), 0, false);
    run_until(&w, &o.done, 1);
    assert_int_equal(o.status, GRPC_UNAVAILABLE);
    assert_non_null(strstr(o.why.p, "ping"));
    outcome_clear(&o);
    (void)close(peer);
    (void)close(fd);
    (void)unlink(w.path);
    world_done(&w);
}

static void paths_are_checked(void **state)
{
    (void)state;
    struct world w;
    struct err err = {0};
    world_init(&w);
    serve(&w, NULL);
    struct grpc_server *second = grpc_server_new(w.loop, NULL);
    assert_int_equal(grpc_server_listen(second, w.path, &err), -EADDRINUSE);
    char path[200];
    memset(path, 'x', sizeof(path) - 1);
    path[sizeof(path) - 1] = 0;
    assert_int_equal(grpc_server_listen(second, path, &err), -ENAMETOOLONG);
    grpc_server_free(second);
    world_done(&w);
}

RUN_TESTS(TEST_CASE(unary_calls_are_answered), TEST_CASE(many_calls_at_once_each_have_one_answer),
          TEST_CASE(large_messages_pass_up_to_the_limit),
          TEST_CASE(streams_come_in_order_and_press_back),
          TEST_CASE(deadlines_and_cancellation_reach_the_server),
          TEST_CASE(lost_connections_are_made_again), TEST_CASE(a_server_stops_gracefully),
          TEST_CASE(silence_is_noticed), TEST_CASE(a_ping_without_answer_ends_the_connection),
          TEST_CASE(paths_are_checked))

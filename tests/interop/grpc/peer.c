// SPDX-License-Identifier: Apache-2.0
//
// Our end of the gRPC interoperability tests: `grpc_peer serve PATH` serves the methods of methods.h
// until SIGTERM; `grpc_peer call PATH` calls all of them at another's server and checks the answers.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "methods.h"

#include "base/banned.h"

static struct loop *loop;

static void stop(void *arg)
{
    (void)arg;
    loop_stop(loop);
}

static int serve(const char *path)
{
    struct methods m = {0};
    struct err err = {0};
    struct grpc_server *s = grpc_server_new(loop, NULL);
    methods_add(s, &m);
    if (grpc_server_listen(s, path, &err) < 0 ||
        loop_on_signal(loop, SIGTERM, stop, NULL, &err) < 0) {
        (void)fprintf(stderr, "%s\n", err.msg);
        return 1;
    }
    (void)printf("serving\n");
    (void)fflush(stdout);
    loop_run(loop);
    (void)printf("closed %d\n", m.closed);
    grpc_server_free(s);
    return 0;
}

// --- Calling -------------------------------------------------------------------------------------

struct answer {
    enum grpc_status status;
    struct sbuf why, response, tail, head;
    uint64_t messages;
};

static struct answer last;

static void on_message(void *arg, struct str message)
{
    (void)arg;
    struct str head, rest;
    uint64_t number = 0;
    str_cut(message, ' ', &head, &rest);
    if (str_to_u64(head, &number) == 0 && number == last.messages)
        last.messages++;
}

static void on_done(void *arg, const struct grpc_result *r)
{
    (void)arg;
    last.status = r->status;
    sbuf_add(&last.why, r->message);
    sbuf_add(&last.response, r->response);
    for (size_t i = 0; i < r->headers_len; i++)
        if (str_eqz(r->headers[i].name, "x-head"))
            sbuf_add(&last.head, r->headers[i].value);
    for (size_t i = 0; i < r->trailers_len; i++)
        if (str_eqz(r->trailers[i].name, "x-tail"))
            sbuf_add(&last.tail, r->trailers[i].value);
    loop_stop(loop);
}

static void call(struct grpc_client *c, const char *method, struct str message, int64_t timeout_ns,
                 bool stream)
{
    sbuf_done(&last.why);
    sbuf_done(&last.response);
    sbuf_done(&last.tail);
    sbuf_done(&last.head);
    last = (struct answer){0};
    char path[64];
    (void)snprintf(path, sizeof(path), "/test.Peer/%s", method);
    const struct grpc_meta meta = {STR("x-in"), STR("value")};
    const struct grpc_request q = {.method = str_z(path),
                                   .message = message,
                                   .meta = &meta,
                                   .meta_len = 1,
                                   .timeout_ns = timeout_ns,
                                   .wait_for_ready = true,
                                   .received = stream ? on_message : NULL,
                                   .done = on_done};
    (void)grpc_client_call(c, &q);
    loop_run(loop);
}

static int failures;

static void expect(bool ok, const char *what)
{
    if (ok)
        return;
    failures++;
    (void)fprintf(stderr, "FAIL %s: %s, \"%.*s\", %zu bytes, %llu messages\n", what,
                  grpc_status_name(last.status), STR_ARG(sbuf_str(&last.why)), last.response.n,
                  (unsigned long long)last.messages);
}

static int call_all(const char *path)
{
    const int64_t patience = 20 * CLOCK_NS_PER_SEC;
    const struct grpc_client_options o = {.loop = loop, .path = path};
    struct grpc_client *c = grpc_client_new(&o);
    struct sbuf big = {0};
    sbuf_add_repeat(&big, 'b', (size_t)3 << 20);
    call(c, "Echo", STR("hello"), patience, false);
    expect(last.status == GRPC_OK && str_eqz(sbuf_str(&last.response), "hello"), "Echo");
    expect(str_eqz(sbuf_str(&last.head), "value"), "header");
    expect(str_eqz(sbuf_str(&last.tail), "value"), "trailer");
    call(c, "Echo", sbuf_str(&big), patience, false);
    expect(last.status == GRPC_OK && str_eq(sbuf_str(&last.response), sbuf_str(&big)), "3 MiB up");
    call(c, "Large", STR("16777216"), patience, false);
    expect(last.status == GRPC_OK && last.response.n == 16777216, "16 MiB down");
    call(c, "Large", STR("16777217"), patience, false);
    expect(last.status == GRPC_RESOURCE_EXHAUSTED, "over the limit");
    call(c, "Fail", STR("50% \xc3\xa9\n!"), patience, false);
    expect(last.status == GRPC_NOT_FOUND && str_eqz(sbuf_str(&last.why), "50% \xc3\xa9\n!"),
           "Fail");
    call(c, "Count", STR("20000"), patience, true);
    expect(last.status == GRPC_OK && last.messages == 20000, "Count");
    call(c, "Hang", STR(""), 100 * CLOCK_NS_PER_MS, false);
    expect(last.status == GRPC_DEADLINE_EXCEEDED, "Hang");
    call(c, "Nothing", STR(""), patience, false);
    expect(last.status == GRPC_UNIMPLEMENTED, "unknown method");
    for (int i = 0; i < 200; i++) {
        call(c, "Echo", STR("again"), patience, false);
        expect(last.status == GRPC_OK, "Echo again");
    }
    call(c, "", STR(""), patience, false); // frees what the last one left
    sbuf_done(&last.why);
    sbuf_done(&last.response);
    sbuf_done(&big);
    grpc_client_free(c);
    return failures ? 1 : 0;
}

int main(int argc, char **argv)
{
    struct err err = {0};
    if (argc != 3 || loop_new(&loop, &err) < 0) {
        (void)fprintf(stderr, "grpc_peer serve|call PATH\n%s", err.msg);
        return 2;
    }
    int r = strcmp(argv[1], "serve") == 0 ? serve(argv[2]) : call_all(argv[2]);
    loop_free(loop);
    return r;
}

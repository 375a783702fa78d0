// SPDX-License-Identifier: Apache-2.0
//
// The methods that every peer of the gRPC tests serves, in whatever language:
//   /test.Peer/Echo    answers with the request; metadata "x-in" comes back as header "x-head" and
//                      trailer "x-tail"
//   /test.Peer/Fail    NOT_FOUND, the request as message
//   /test.Peer/Count   a stream of as many messages of 1,000 bytes as the request says in decimal, each
//                      beginning with its number
//   /test.Peer/Large   a message of as many bytes as the request says
//   /test.Peer/Hang    never answers
#ifndef INTEROP_GRPC_METHODS_H
#define INTEROP_GRPC_METHODS_H

#include <stdio.h>

#include "base/mem.h"
#include "net/grpc.h"

#define COUNT_MESSAGE_BYTES 1000

struct methods {
    int closed;  // calls taken back from their handlers
    int drained; // times that a stream could go on
    int hanging;
};

struct counting {
    struct methods *methods;
    struct grpc_call *call;
    uint64_t next, end;
};

static inline void methods_echo(void *arg, struct grpc_call *call)
{
    (void)arg;
    for (size_t i = 0; i < call->meta_len; i++) {
        if (str_eqz(call->meta[i].name, "x-in")) {
            grpc_add_header(call, STR("x-head"), call->meta[i].value);
            grpc_add_trailer(call, STR("x-tail"), call->meta[i].value);
        }
    }
    grpc_reply(call, call->request);
}

static inline void methods_fail(void *arg, struct grpc_call *call)
{
    (void)arg;
    grpc_finish(call, GRPC_NOT_FOUND, call->request);
}

static inline void methods_count_more(void *arg)
{
    struct counting *k = arg;
    bool more = true;
    while (more && k->next < k->end) {
        char text[COUNT_MESSAGE_BYTES + 1];
        int n = snprintf(text, sizeof(text), "%llu ", (unsigned long long)k->next++);
        memset(text + n, '.', sizeof(text) - (size_t)n);
        more = grpc_send(k->call, str_make(text, COUNT_MESSAGE_BYTES));
    }
    if (k->next == k->end)
        grpc_finish(k->call, GRPC_OK, (struct str){0});
}

static inline void methods_drained(void *arg)
{
    struct counting *k = arg;
    k->methods->drained++;
    methods_count_more(k);
}

static inline void methods_closed(void *arg)
{
    struct counting *k = arg;
    k->methods->closed++;
}

static inline void methods_count(void *arg, struct grpc_call *call)
{
    struct counting *k = arena_one(call->arena, struct counting);
    *k = (struct counting){.methods = arg, .call = call};
    call->arg = k;
    call->closed = methods_closed;
    call->drained = methods_drained;
    if (str_to_u64(call->request, &k->end) < 0)
        grpc_finish(call, GRPC_INVALID_ARGUMENT, STR("not a number"));
    else
        methods_count_more(k);
}

static inline void methods_large(void *arg, struct grpc_call *call)
{
    (void)arg;
    uint64_t n = 0;
    if (str_to_u64(call->request, &n) < 0 || n > UINT64_C(64) << 20) {
        grpc_finish(call, GRPC_INVALID_ARGUMENT, STR("not a size"));
        return;
    }
    struct sbuf text = {0};
    sbuf_add_repeat(&text, 'L', n);
    grpc_reply(call, sbuf_str(&text));
    sbuf_done(&text);
}

static inline void methods_hang(void *arg, struct grpc_call *call)
{
    struct methods *m = arg;
    struct counting *k = arena_one(call->arena, struct counting);
    *k = (struct counting){.methods = m, .call = call};
    m->hanging++;
    call->arg = k;
    call->closed = methods_closed;
}

static inline void methods_add(struct grpc_server *s, struct methods *m)
{
    grpc_server_handle(s, STR("/test.Peer/Echo"), methods_echo, m);
    grpc_server_handle(s, STR("/test.Peer/Fail"), methods_fail, m);
    grpc_server_handle(s, STR("/test.Peer/Count"), methods_count, m);
    grpc_server_handle(s, STR("/test.Peer/Large"), methods_large, m);
    grpc_server_handle(s, STR("/test.Peer/Hang"), methods_hang, m);
}

#endif

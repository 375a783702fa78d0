// SPDX-License-Identifier: Apache-2.0
//
// Inside the HTTPS client. A client has connections and calls; a call waits in `queued`, is on a
// connection, or is finished and in `ready`.
//
// Nothing of the owner runs inside a connection: what happens to calls is noted and `ready` is
// drained when the outermost entry (https_enter) is left. So every callback may start, cancel and
// free as it likes.
#ifndef NET_CLIENT_HTTPS_INT_H
#define NET_CLIENT_HTTPS_INT_H

#include "base/list.h"
#include "net/dial.h"
#include "net/h1_answer.h"
#include "net/http/h2_session.h"
#include "net/https.h"

// A stream that its owner does not read is held up after this much.
#define HTTPS_STREAM_WINDOW ((size_t)1024 * 1024)

struct https {
    struct loop *loop;
    struct exec *exec;
    struct net_url url;
    char *shown; // the URL without credentials, for errors
    char *unix_socket, *server_name, *user_agent;
    struct sbuf authorization; // of the URL's user; empty: none
    struct {                   // the way to the server
        struct net_url proxy;
        bool tls, proxied, insecure;
        bool absolute;           // plain HTTP to a proxy, which gets the whole URL
        struct sbuf proxy_basic; // its Proxy-Authorization then
    };
    struct err broken; // with a code: every call fails with this
    struct {           // credentials
        struct sbuf ca, certificate, key;
        struct tls_client *tls_client, *tunnel_tls, *proxy_tls; // NULL: none was needed yet
        unsigned identity;                                      // how often it has changed
    };
    size_t connections, body_bytes;
    int64_t connect_timeout_ns;
    https_warning_fn warning;
    void *warning_arg;
    bool h1_only; // the server chose HTTP/1.1 last time
    struct {      // connections and calls
        struct list conns, dead;
        struct list calls, queued, ready;
        struct exec_timer turn;
        struct exec_timer again; // armed: a connection could not be made while others were there
    };
    int entered;
    bool freed;
};

struct https_conn {
    struct https *https;
    struct list_node node;
    struct dial *dial; // NULL: gone
    struct list calls; // on it
    size_t calls_len;
    bool open, h2, leaving; // leaving: takes no more calls
    bool served;            // a call was answered on it
    unsigned identity;
    struct exec_timer timer;
    int64_t heard_ns, idle_ns; // when something came, when the last call ended
    bool pinged;
    // HTTP/1.1
    struct h1_answer answer;
    bool began; // the response has
    // HTTP/2
    struct h2_session session;
    struct outq out;
    uint32_t streams_max;
    bool blocked; // the dial takes no more
};

struct https_call {
    struct https *https;
    struct https_conn *conn; // NULL: on none
    struct list_node node;   // all calls
    struct list_node queue;  // queued, or those of conn
    struct list_node ready;
    struct h2_stream h2;
    struct exec_timer timeout;
    unsigned tries;
    struct {         // the request
        char *texts; // the request's
        struct str method, target, content_type, accept, authorization;
        struct net_buf *body; // NULL: none
    };
    void (*data)(void *arg, struct str bytes);
    void (*done)(void *arg, const struct https_answer *answer);
    void *arg;
    struct { // the response
        struct sbuf in;
        int status;
        int64_t retry_after_seconds, date_seconds;
        bool streaming; // the status is 2xx and data wants the body
        bool held, finished, entered, cancelled;
        bool unsent;
        struct err err; // with a code: it failed
    };
};

// --- https.c -------------------------------------------------------------------------------------

void https_enter(struct https *h);
void https_leave(struct https *h); // may free h
void https_wake(struct https *h);  // has https_leave's work done soon

// --- https_call.c --------------------------------------------------------------------------------

struct https_call *https_call_new(struct https *h, const struct https_request *q);
void https_call_free(struct https_call *call);
void https_call_detach(struct https_call *call); // from its connection, which forgets it

// What comes of its response. https_call_header takes a field; names are in lower case.
void https_call_header(struct https_call *call, struct str name, struct str value);
void https_call_head(struct https_call *call, int status);
void https_call_body(struct https_call *call, struct str bytes);
bool https_call_is_full(const struct https_call *call);

// https_call_succeed and https_call_fail end it; unsent: the server has not seen it.
void https_call_succeed(struct https_call *call);
void https_call_fail(struct https_call *call, const struct err *err, bool unsent);
void https_call_failf(struct https_call *call, bool unsent, int code, const char *fmt, ...)
    ERR_PRINTF(4, 5);
// https_call_refused sends it again on another connection, a few times, as the server has not
// looked at it.
void https_call_refused(struct https_call *call, const char *why);
// https_call_settle notifies the owner. May free the call.
void https_call_settle(struct https_call *call);

// --- https_conn.c --------------------------------------------------------------------------------

// https_conn_new begins to connect. Returns 0 or a negative code (certificates that cannot be
// read).
int https_conn_new(struct https *h, struct err *err) MUST_USE;
bool https_conn_has_room(const struct https_conn *c);
void https_conn_send(struct https_conn *c, struct https_call *call);
void https_conn_cancel(struct https_conn *c, struct https_call *call); // is about to be detached
void https_conn_consumed(struct https_conn *c, struct https_call *call, size_t n);
void https_conn_flush(struct https_conn *c);
// https_conn_lose ends it; err NULL: the server has closed.
void https_conn_lose(struct https_conn *c, const struct err *err);
void https_conn_free(struct https_conn *c);

// --- https_h2.c ----------------------------------------------------------------------------------

void https_h2_open(struct https_conn *c);
void https_h2_send(struct https_conn *c, struct https_call *call);
void https_h2_input(struct https_conn *c, struct str bytes);
void https_h2_flush(struct https_conn *c);

#endif

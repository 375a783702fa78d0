// SPDX-License-Identifier: Apache-2.0
//
// What the files of the node's endpoint share.
#ifndef NODE_ENDPOINT_KUBELET_HTTP_INT_H
#define NODE_ENDPOINT_KUBELET_HTTP_INT_H

#include "base/list.h"
#include "net/query.h"
#include "node/endpoint/kubelet_http.h"

struct kubelet_http {
    struct kubelet_http_options o;
    struct exec *exec;
    struct http_server *http;
    struct list streams; // struct kubelet_stream
    struct list visits;  // whose access is being judged
    bool freed;
};

// A stream that stays open: a followed log, a running command.
struct kubelet_stream {
    struct list_node node;
    void (*end)(struct kubelet_stream *s); // at once: the endpoint goes
};

// What a request asks for, in its arena.
struct kubelet_target {
    struct str namespace, pod, uid, container;
    struct query query;
};

// kubelet_reply answers with a text. kubelet_reply_error chooses the code by the error's.
void kubelet_reply(struct http_request *q, int status, struct str text);
void kubelet_reply_error(struct http_request *q, const struct err *err);

void kubelet_logs(struct kubelet_http *h, struct http_request *q, const struct kubelet_target *t);
void kubelet_exec(struct kubelet_http *h, struct http_request *q, const struct kubelet_target *t,
                  bool attach);

// --- Following a log file (kubelet_http_follow.c) ------------------------------------------------

struct log_follower;

// The receiver's answer: continue, wait for log_follower_go, or stop (done follows).
enum log_take { LOG_MORE, LOG_WAIT, LOG_STOP };

struct log_follower_options {
    struct exec *exec;
    struct runtime *runtime;
    struct str container_id;
    const char *path;
    bool follow;
    int64_t tail_lines;                                 // -1: all
    enum log_take (*data)(void *arg, struct str bytes); // of the file, in order
    void (*done)(void *arg);                            // the end, last
    void *arg;
};

// log_follower_new opens the file; nothing is called before it has returned. Returns 0 or -errno.
int log_follower_new(const struct log_follower_options *options, struct log_follower **ret,
                     struct err *err) MUST_USE;
void log_follower_go(struct log_follower *f);
void log_follower_free(struct log_follower *f); // before or within done; not within data

#endif

// SPDX-License-Identifier: Apache-2.0
//
// One request over the server's Unix socket, on a loop of its own: the command waits for nothing
// else.
#include "cmd/local.h"

#include <stdlib.h>

#include "codec/json.h"
#include "net/https.h"

#include "base/banned.h"

#define LOCAL_TIMEOUT_MS 600000 // a backup of a large store takes minutes

struct local_question {
    struct loop *loop;
    struct sbuf *out;
    int code;
    struct err *err;
};

void local_escape(struct sbuf *out, struct str text)
{
    for (size_t i = 0; i < text.n; i++) {
        unsigned char c = (unsigned char)text.p[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                     c == '/' || c == '.' || c == '-' || c == '_';
        if (plain)
            sbuf_addc(out, (char)c);
        else
            sbuf_addf(out, "%%%02X", (unsigned)c);
    }
}

// local_judge finds the body or, for a failure, the message of the answer.
static int local_judge(int status, struct str body, struct sbuf *out, struct err *err)
{
    if (status == 200) {
        sbuf_add(out, body);
        return 0;
    }
    cleanup_json_doc struct json_doc doc = {0};
    const yyjson_val *message = NULL;
    if (json_parse(body, NULL, &doc, NULL) == 0)
        message = json_get(doc.root, STR("message"));
    int failure = status == 404 ? ERR_NOT_FOUND : status == 503 ? ERR_UNAVAILABLE : ERR_INTERNAL;
    if (message && json_is_string(message))
        return err_set(err, failure, "%.*s", STR_ARG(json_str(message)));
    return err_set(err, failure, "the server answered %d", status);
}

static void local_on_answer(void *arg, const struct https_answer *a)
{
    struct local_question *q = arg;
    if (a->code == 0)
        q->code = local_judge(a->status, a->body, q->out, q->err);
    else // ERR_UNAVAILABLE is for a server that runs and cannot answer yet
        q->code = err_set(q->err, a->unsent ? ECONNREFUSED : -a->code, "%s", a->err->msg);
    loop_stop(q->loop);
}

int local_request(const char *socket_path, const char *method, const char *target, struct sbuf *out,
                  struct err *err)
{
    struct local_question q = {.out = out, .err = err};
    struct https *https = NULL;
    const struct https_options o = {.url = STR("http://localhost"),
                                    .unix_socket = str_z(socket_path)};
    const struct https_request request = {.method = method,
                                          .target = str_z(target),
                                          .timeout_ms = LOCAL_TIMEOUT_MS,
                                          .done = local_on_answer,
                                          .arg = &q};
    int r = loop_new(&q.loop, err);
    if (r < 0)
        return r;
    r = https_new(q.loop, &o, &https, err);
    if (r == 0) {
        (void)https_start(https, &request);
        loop_run(q.loop);
        https_free(https);
        r = q.code;
    }
    loop_free(q.loop);
    return r;
}

void local_socket(struct sbuf *out, const char *path, const char *data_dir)
{
    const char *home = getenv("HOME"); // NOLINT(concurrency-mt-unsafe): nothing sets it
    if (path)
        sbuf_addz(out, path);
    else if (data_dir)
        sbuf_addf(out, "%s/dray.sock", data_dir);
    else
        sbuf_addf(out, "%s/.dray/dray.sock", home && home[0] ? home : ".");
}

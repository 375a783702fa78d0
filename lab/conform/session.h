// SPDX-License-Identifier: Apache-2.0
//
// A conversation with an API server in blocking calls. Every call is kept as evidence of the check
// that makes it. One thread calls; the client runs on a thread of its own.
#ifndef LAB_CONFORM_SESSION_H
#define LAB_CONFORM_SESSION_H

#include "base/arena.h"
#include "base/clock.h"
#include "codec/json.h"
#include "codec/json_writer.h"
#include "lab/conform/conform.h"

#define CONFORM_LABEL        "dray.dev/conformance"
#define CONFORM_EVIDENCE_MAX 2000 // characters of one piece; longer ones are cut

struct wire; // the client and its thread
struct lines;

struct session {
    const struct conform_options *o;
    struct wire *wire;
    struct arena *arena; // of the report
    struct conform_report *report;
    struct conform_outcome *outcome; // of the check that runs; NULL: none
    struct str run;                  // value of the label, part of names
    struct str namespace;
    bool namespace_is_ours;
    bool cleaning;          // an interrupt does not stop calls any more
    bool containers;        // pods really run
    struct lines *baseline; // what a pod without claims sees; NULL: not known yet
    struct lines *visible;  // what a claim adds to that
};

struct answer {
    int code;       // 0 or -ERR_…
    struct str why; // the server's words
    struct str body;
    const yyjson_val *root; // NULL: not JSON
};

// session_open connects. Returns 0 or a negative code.
int session_open(struct session *s, struct err *err) MUST_USE;
void session_close(struct session *s);

// session_call sends a request and waits. type is the content type; NULL: JSON. Everything lives in
// the report's arena. After an interrupt, unless cleaning, the code is -ECANCELED.
struct answer session_call(struct session *s, const char *method, const char *path,
                           const char *type, const char *body);

// session_get is session_call for reading, without keeping it as evidence: for polling.
struct answer session_get(struct session *s, const char *path);

// session_pause waits a moment. Returns false after an interrupt.
bool session_pause(struct session *s, int64_t ms);
int64_t session_now_ns(void);

// session_at is the text at a path of an answer, or empty.
struct str session_at(const yyjson_val *v, const char *path);

// session_json is a text as JSON, with its quotes.
const char *session_json(struct session *s, const char *text);
// session_text makes a text as printf does.
const char *session_text(struct session *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// --- What a check writes down --------------------------------------------------------------------

void session_note(struct session *s, const char *type, struct str text);
void session_notef(struct session *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// session_fail and session_skip say why, and return -1.
int session_fail(struct session *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
int session_skip(struct session *s, const char *format, ...) __attribute__((format(printf, 2, 3)));

// session_expect is session_fail unless an answer has the code.
int session_expect(struct session *s, const struct answer *a, int code, const char *what);

// --- The checks ----------------------------------------------------------------------------------

int conform_check_api(struct session *s);
int conform_check_crud(struct session *s, const char *kind);
int conform_check_containers(struct session *s);
int conform_check_access_with_claim(struct session *s);
int conform_check_access_without_claim(struct session *s);
int conform_check_access_two_containers(struct session *s);
int conform_check_access_other_pod(struct session *s);
int conform_check_sharing(struct session *s);
int conform_check_driver_versions(struct session *s);
int conform_check_metrics(struct session *s);
int conform_check_nic(struct session *s);
int conform_check_gang(struct session *s);

#endif

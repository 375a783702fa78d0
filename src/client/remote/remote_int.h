// SPDX-License-Identifier: Apache-2.0
//
// What the files of the remote transport share.
#ifndef CLIENT_REMOTE_REMOTE_INT_H
#define CLIENT_REMOTE_REMOTE_INT_H

#include "base/list.h"
#include "client/remote.h"
#include "net/https.h"

// Who we are at the server; see remote_auth.c.
struct remote_auth {
    struct kubeconfig_target target;
    struct sbuf authorization; // header's value
    int64_t good_until_ns;     // on the exec's clock; INT64_MAX: for ever
    bool known;                // authorization is set, maybe to nothing
    bool refreshing;
    struct list waiting; // sendings
};

// Answers of one method and code; code 0: there was none.
struct remote_count {
    const char *method;
    int code;
    uint64_t n;
};

#define REMOTE_COUNTS    32
#define REMOTE_REDIRECTS 4

struct remote {
    struct client client;
    struct loop *loop;
    struct https *https;
    struct arena arena; // of auth.target
    struct remote_auth auth;
    struct list calls;
    size_t busy; // calls, watches and refreshes that are not over
    bool freed;
    bool no_watch_list;
    int64_t date_seconds; // of the last answer; see client_remote_date
    struct {
        const struct api_kind *from, *to;
    } redirects[REMOTE_REDIRECTS];
    struct remote_count counts[REMOTE_COUNTS]; // the last: what the others have no room for
};

// remote_kind is the kind that is requested: itself, unless it is redirected.
const struct api_kind *remote_kind(const struct remote *r, const struct api_kind *kind);

// remote_accept is what to ask for: protobuf where the server has it; of a partial kind only
// metadata.
struct str remote_accept(const struct api_kind *kind, bool list);

static inline struct remote *remote_of(struct client *c)
{
    return container_of(c, struct remote, client);
}

void remote_release(struct remote *r);

// A request on its way, tried again where that is safe. Embedded, and zeroed before.
struct sending {
    struct remote *remote;
    struct https_request request; // texts are the owner's, as long as it is under way
    void (*done)(void *arg, const struct https_answer *answer); // once, unless stopped
    void *arg;
    struct https_call *call;
    struct list_node waiting; // for credentials
    struct exec_timer retry;
    unsigned tries;
    bool reauthorized;
};

void remote_sending_start(struct sending *s);
void remote_sending_stop(struct sending *s); // legal at any time, also twice

// remote_auth_ready reports whether a request may go. If not, s waits and is started again.
bool remote_auth_ready(struct remote *r, struct sending *s);
// remote_auth_refused: the server does not know us. True: asking again may help.
bool remote_auth_refused(struct remote *r);
void remote_auth_init(struct remote *r, const struct kubeconfig_target *target);
void remote_auth_done(struct remote *r);
// remote_sending_fail answers one that waited in vain.
void remote_sending_fail(struct sending *s, const struct err *err);

// remote_path adds the path of a kind's objects, of one if name is not empty.
void remote_path(struct sbuf *out, const struct api_kind *kind, struct str namespace,
                 struct str name, struct str subresource);
// remote_query adds a parameter; first: none was added before, and becomes false.
void remote_query(struct sbuf *out, bool *first, const char *name, struct str value);

// remote_decode makes an object of a JSON value; compact copies it into an arena of its own size,
// for those who keep many. NULL and err if it is not one.
struct typed_object *remote_decode(const struct api_kind *kind, const struct json_doc *doc,
                                   const yyjson_val *v, bool compact, struct err *err);

// remote_decode_envelope makes an object of a body in protobuf, compact or not as above. Returns 0,
// with *ret untouched when it is a Status, or a negative code. remote_decode_message does it for an
// object's bare message, compact.
int remote_decode_envelope(const struct api_kind *kind, struct str body, bool compact,
                           struct typed_object **ret, struct err *err) MUST_USE;
int remote_decode_message(const struct api_kind *kind, struct str message,
                          struct typed_object **ret, struct err *err) MUST_USE;

// --- What watches and lists bring (remote_event.c)
// ------------------------------------------------

#define REMOTE_PROTOBUF        "application/vnd.kubernetes.protobuf"
#define REMOTE_EVENT_BYTES_MAX ((size_t)64 * 1024 * 1024)

// An event: ADDED, MODIFIED, DELETED or BOOKMARK. The object is the reader's to release.
struct remote_event {
    enum client_event_type type;
    struct typed_object *object;
};

// remote_event_json and remote_event_frame read one. Return 0 or a negative code: what the server
// reported in an ERROR, or that it is malformed.
int remote_event_json(const struct api_kind *kind, struct str text, struct remote_event *ret,
                      struct err *err) MUST_USE;
int remote_event_frame(const struct api_kind *kind, struct str frame, struct remote_event *ret,
                       struct err *err) MUST_USE;

// Where a page of a list stands: the next one's name, or the list's revision.
struct remote_page {
    struct sbuf next;
    uint64_t revision;
};

// remote_page_read hands every item of a page to item, which returns 0 to go on. Returns 0, what
// item returned, or a negative code.
typedef int (*remote_item_fn)(void *arg, struct typed_object *o);
int remote_page_read(const struct api_kind *kind, struct str body, remote_item_fn item, void *arg,
                     struct remote_page *ret, struct err *err) MUST_USE;

// remote_status_value is client_remote_status of a Status that is parsed already.
int remote_status_value(int http_status, const yyjson_val *status, struct err *err);

struct client_watch *remote_watch(struct client *c, const struct api_kind *kind,
                                  const struct client_list_options *options, uint64_t since,
                                  client_event_fn event, void *arg);
void remote_watch_stop(struct client_watch *w);

#endif

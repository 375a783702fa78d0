// SPDX-License-Identifier: Apache-2.0
//
// What the files of the server share. Private to src/server.
#ifndef SERVER_HTTP_SERVER_INT_H
#define SERVER_HTTP_SERVER_INT_H

#include "api/api.h"
#include "api/cause.h"
#include "base/arena.h"
#include "base/list.h"
#include "base/map.h"
#include "base/vec.h"
#include "inproc/local.h"
#include "net/http.h"
#include "pki/sign.h"
#include "registry/registry.h"
#include "server/auth/auth.h"
#include "server/auth/deny.h"
#include "server/auth/nodeauth.h"
#include "server/auth/rbac.h"
#include "server/auth/roles.h"
#include "server/auth/self_service.h"
#include "server/flow/fair.h"
#include "server/http/catalog.h"
#include "server/http/encode.h"
#include "server/http/negotiate.h"
#include "server/http/node.h"
#include "server/http/piece.h"
#include "server/http/query.h"
#include "server/http/route.h"
#include "server/metrics.h"
#include "server/server.h"

// Bodies of more than this are streamed in pieces of about this size.
#define SERVER_PIECE_BYTES ((size_t)64 * 1024)

// What a list lets wait for its reader: enough to keep a connection busy, little enough to stay in
// the processor's cache.
#define SERVER_LIST_QUEUE ((size_t)128 * 1024)

// Longer lists are not indented, and not written in YAML: both are made at once, which takes the
// loop and much memory.
#define SERVER_PRETTY_BYTES_MAX ((size_t)4 * 1024 * 1024)

// Longer lists in protobuf are not made whole before they are sent. What they are made of is
// written twice instead: first to learn its length, which stands before it.
#define SERVER_MESSAGE_BYTES_MAX ((size_t)1024 * 1024)

// Objects looked at before others get their turn on the loop.
#define SERVER_STEP_OBJECTS 1024

// How long a list or watch waits for a revision that is not there yet, and how often it looks.
#define SERVER_FUTURE_WAIT_NS (3 * CLOCK_NS_PER_SEC)
#define SERVER_FUTURE_POLL_NS (20 * CLOCK_NS_PER_MS)

// Requests that may be under way at once, and those that may wait.
#define SERVER_SEATS   1200
#define SERVER_WAITING 8192

// Exchanges kept for reuse.
#define SERVER_SPARE_EXCHANGES 64

struct openapi_document {
    struct str path; // apis/G/V, as the index has it
    struct str group, version;
    char hash[33]; // of its bytes, once made
};

// The way to nodes' endpoints.
struct server_node_side {
    struct server_nodes to; // texts in the arena; no loop: nodes cannot be reached
    struct tls_client *tls; // for upgrades
    struct arena arena;
    struct list relays; // streams from nodes
};

// Who may do what.
struct server_access {
    bool anonymous;
    bool has_roles;            // else every authenticated user may do everything
    struct client *client;     // of the roles
    struct sign_key *accounts; // for tokens of service accounts; NULL: there are none
    struct oidc *oidc;         // tokens of an issuer; NULL: there are none
    size_t oidc_waiting;       // requests that wait for its keys
    struct deny *deny;         // NULL: nothing is denied
    struct exec_timer deny_timer;
    struct rbac *rbac;         // NULL with has_roles: the server stops and refuses everything
    struct nodeauth *nodeauth; // NULL: nodes have no rights of their own
};

// Turns on the loop, and who waits for one.
struct server_turns {
    struct fair fair;
    bool posted;
    int64_t started_ns, spent_ns;
    uint64_t sent_away; // with 429
};

// Scheduler and controllers of this process; ask is NULL where there are none.
struct server_components {
    server_ask_fn ask;
    void *arg;
};

struct server {
    struct exec *exec;
    struct registry *registry;
    struct store *store;
    struct catalog catalog;
    struct auth auth;
    struct metrics metrics;
    struct encode_cache cache;
    struct piece_pool *pieces; // of lists
    struct server_node_side node;
    struct {
        struct list all; // struct watcher
        size_t n;
        int64_t bookmark_ns;
    } watchers;
    struct {
        struct list active, spare;
        size_t spare_len;
    } exchanges;
    struct VEC(const struct server_door *) doors;
    struct VEC(struct openapi_document) openapi; // made with the first request for one
    struct sbuf address;
    struct server_access access;
    struct client *founder;   // of what every cluster has; NULL: not wanted
    struct self_service self; // default/kubernetes
    bool stopping;
    struct server_turns turns;
    struct server_components components;
    struct audit *audit; // NULL: nothing is recorded
    int64_t started_wall_ns;
};

// A request on its way to an answer. Everything it needs is its own: the client may go away while
// the registry works.
struct exchange {
    struct list_node node; // in active or spare
    struct server *s;
    struct http_request *q; // NULL: the client is gone
    struct arena arena;
    struct route route;
    unsigned verb; // bit; 0 for what is not a resource
    struct query query;
    struct form form;
    enum api_include include;
    struct registry_user user;
    struct deny_subject subject; // who authenticated; the certificate's texts are the connection's
    struct registry_request request;
    struct str user_agent;
    struct {
        struct str id;             // the answer's Audit-ID
        struct audit_trail *trail; // NULL: not recorded
    } audit;
    struct {
        struct VEC(struct str) texts; // in the arena
        size_t runes, runes_cut;      // of all, and when each is cut short
    } warnings;
    const struct api_delete_options *delete_options;
    struct exec_timer timer; // waiting for a revision
    int64_t wait_until_ns;
    uint64_t wait_revision;
    void (*wait_done)(struct exchange *ex, bool there);
    void *state;                     // of a list or watch
    void (*free_state)(void *state); // while waiting for a revision
    int64_t started_ns;
    struct fair_item fair;              // its place in a queue, or its seat
    void (*serve)(struct exchange *ex); // when it is its turn
};

// --- Answers (answer.c). Each ends the exchange. -------------------------------------------------

// answer_bytes sends a body of one piece; takes over b's text.
void answer_bytes(struct exchange *ex, int code, struct str content_type, struct sbuf *b);

// answer_buf does the same with shared bytes; takes over the reference.
void answer_buf(struct exchange *ex, int code, struct str content_type, struct net_buf *body);

// answer_json sends a JSON document in the form that the request accepts (YAML, indented).
void answer_json(struct exchange *ex, int code, struct sbuf *json);

// answer_object sends an object in the request's version and form.
void answer_object(struct exchange *ex, int code, const struct object *o);

// answer_status sends a Status with its own code.
void answer_status(struct exchange *ex, const struct api_status *status);

// answer_fail makes a Status of an HTTP code and a reason; details NULL: none.
void answer_fail(struct exchange *ex, int code, const char *reason, struct str message,
                 struct api_status_details *details);

// answer_error makes one of an error of the rooms below, by its code.
void answer_error(struct exchange *ex, const struct err *err);

// answer_invalid lists invalid options: a 422 on kind (ListOptions, …) of meta.k8s.io.
void answer_invalid(struct exchange *ex, struct str kind, const struct causes *causes);

void answer_not_found(struct exchange *ex);
void answer_too_large_revision(struct exchange *ex, uint64_t wanted);

// answer_start begins a streamed answer; the exchange goes on.
void answer_start(struct exchange *ex, int code, struct str content_type);

// exchange_end counts the answer and gives the exchange back. For those who streamed.
void exchange_end(struct exchange *ex, int code);

// exchange_how is the version and form in which objects are wanted.
struct encode_how exchange_how(const struct exchange *ex);

// exchange_warn adds a warning for the answer's headers, once; text is copied. As upstream, texts
// of over 4,096 characters in all are cut to 256 each, and what then goes beyond is dropped. So is
// what comes behind the 64th.
void exchange_warn(struct exchange *ex, struct str text);

// --- Verbs ---------------------------------------------------------------------------------------

void read_get(struct exchange *ex);
void read_serve_list(struct exchange *ex, const struct list_options *options);
void watch_serve(struct exchange *ex, const struct list_options *options);
void watch_stop_all(struct server *s);

// exchange_wait calls done when a revision is visible, or not in time.
void exchange_wait(struct exchange *ex, uint64_t revision,
                   void (*done)(struct exchange *ex, bool there));

void write_create(struct exchange *ex);
void write_update(struct exchange *ex);
void write_serve_patch(struct exchange *ex);
void write_delete(struct exchange *ex);
void write_delete_collection(struct exchange *ex);

// stream_serve passes on what a node serves: logs, commands. stream_stop_all ends what goes on.
void stream_serve(struct exchange *ex);
void stream_stop_all(struct server *s);

// document_serve answers every path that is not a resource. document_answer_metrics adds the
// server's metrics to those of the components.
void document_serve(struct exchange *ex);
void document_answer_metrics(struct exchange *ex, struct str components);
bool document_is_master(const struct registry_user *u);

// What the components of the process answer.
void question_serve_explain(struct exchange *ex);
void question_serve_check(struct exchange *ex);
void question_serve_metrics(struct exchange *ex);

#endif

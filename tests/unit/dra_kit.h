// SPDX-License-Identifier: Apache-2.0
//
// What tests of the DRA manager share: an API in memory, a driver in memory, and two ways to reach it:
// by gRPC over a socket, and without either, on a fake clock.
#ifndef UNIT_DRA_KIT_H
#define UNIT_DRA_KIT_H

#include "base/list.h"
#include "net/grpc.h"
#include "node/dra.h"
#include "unit.h"

// kit_object makes an object of JSON text; one reference.
struct typed_object *kit_object(const char *json);

// --- An API in memory ----------------------------------------------------------------------------

struct kit_objects VEC(struct typed_object *);

struct kit_api {
    struct client client;
    struct kit_objects objects;
    struct sbuf log; // writes, one a line: "delete-all ResourceSlice <fields>", "patch Node …"
    int refuse;      // code of all answers, if not 0
};

void kit_api_init(struct kit_api *a, struct exec *exec);
void kit_api_done(struct kit_api *a);
const struct typed_object *kit_api_add(struct kit_api *a, const char *json);
void kit_api_remove(struct kit_api *a, const char *kind, const char *name);

// kit_claim adds an allocated claim "default/NAME" with UID uid-NAME whose device dev-NAME is of a
// driver, reserved for the pods of the list "uid uid …".
void kit_claim(struct kit_api *a, const char *name, const char *driver, const char *pods);

// kit_pod makes a pod "default/NAME" of UID uid, with one container that uses all claims of the list
// "claim claim …".
struct typed_object *kit_pod(const char *name, const char *uid, const char *claims);

// --- A driver ------------------------------------------------------------------------------------

struct kit_prepared {
    char *uid;
};

struct kit_driver {
    // Another kind of plugin answers by itself; NULL: a DRA driver.
    enum grpc_status (*answer)(struct kit_driver *d, struct str method, struct str request,
                               struct sbuf *out);
    const char *name;
    const char *versions[5]; // NULL at the end
    struct VEC(struct kit_prepared) prepared;
    struct sbuf log; // "prepare uid uid;unprepare uid;"
    int prepares, unprepares, registered, refused;
    struct sbuf registration_error;
    // How it misbehaves:
    bool hang;               // does not answer
    const char *claim_error; // for every claim
    const char *rpc_error;   // for the call
    bool skip_first, add_unknown, twice;
    const char *type;     // of its registration; NULL: DRAPlugin
    const char *endpoint; // as it is told; filled in
    const char *request;  // the request name in answers; NULL: "gpu"
};

void kit_driver_done(struct kit_driver *d);
bool kit_driver_has(const struct kit_driver *d, const char *uid);

// kit_driver_answer answers a unary method; out gets the message, or why not.
enum grpc_status kit_driver_answer(struct kit_driver *d, struct str method, struct str request,
                                   struct sbuf *out);

// kit_health adds a health message: "pool/device=h pool/device=u:message …", h, u or ? for unknown,
// with an optional "@seconds" behind the name.
void kit_health(struct sbuf *out, const char *text);

// --- Served by gRPC ------------------------------------------------------------------------------

struct kit_served {
    struct kit_driver *driver;
    struct grpc_server *dra, *registration;
    struct grpc_call *stream; // of health
    char endpoint[96], socket[96];
};

// kit_serve listens in folder/plugins and folder/registry, which must exist.
void kit_serve(struct kit_served *s, struct loop *loop, struct kit_driver *d, const char *folder,
               const char *instance);
void kit_serve_stop(struct kit_served *s);

// --- In memory -----------------------------------------------------------------------------------

struct kit_peer {
    char *path;
    struct kit_driver *driver;
    bool up;
};

struct kit_transport {
    struct transport transport;
    struct exec *exec;
    struct VEC(struct kit_peer) peers;
    struct list links;
};

void kit_transport_init(struct kit_transport *t, struct exec *exec);
void kit_transport_done(struct kit_transport *t);
// kit_transport_add makes a driver answer at a path. kit_transport_up lets it come and go.
void kit_transport_add(struct kit_transport *t, const char *path, struct kit_driver *d);
void kit_transport_up(struct kit_transport *t, const char *path, bool up);
// kit_transport_send sends a message on all streams of a path.
size_t kit_transport_send(struct kit_transport *t, const char *path, struct str message);
// kit_transport_health sends a message on all health streams of a path; kit_transport_end ends them.
size_t kit_transport_health(struct kit_transport *t, const char *path, const char *text);
size_t kit_transport_end(struct kit_transport *t, const char *path, enum grpc_status status);

// kit_socket makes a socket file that nobody listens on.
void kit_socket(const char *path);

// --- Operations ----------------------------------------------------------------------------------

struct kit_result {
    int done;
    int code;
    struct err err;
};

void kit_done(void *arg, int code, const struct err *err); // arg: struct kit_result

#endif

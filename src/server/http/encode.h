// SPDX-License-Identifier: Apache-2.0
//
// Stored objects and events as bytes for clients: whole, as metadata alone, as a table. An event is
// encoded once for all watchers that want it in the same version and form.
#ifndef SERVER_HTTP_ENCODE_H
#define SERVER_HTTP_ENCODE_H

#include <stdbool.h>
#include <stdint.h>

#include "api/api.h"
#include "api/tables.h"
#include "base/err.h"
#include "net/http.h"
#include "server/http/negotiate.h"
#include "store/object.h"
#include "store/store.h"

// In which version and form objects are wanted.
struct encode_how {
    const struct api_kind *as;
    enum form_as form;
    bool v1beta1;
    bool protobuf;            // not of tables
    enum api_include include; // of table rows
    bool no_headers;          // of a table: its reader knows the columns
    int64_t now_ns;           // since 1970, for ages in tables
};

// encode_object adds an object. revision, if not 0, is shown instead of the object's own.
// Returns 0 or -ERR_INTERNAL.
int encode_object(const struct object *o, const struct encode_how *how, uint64_t revision,
                  struct sbuf *out, struct err *err) MUST_USE;

// encode_item adds an object as an item of a list of its kind.
int encode_item(const struct object *o, const struct encode_how *how, struct sbuf *out,
                struct err *err) MUST_USE;

// encode_list_head adds all that stands before the items: kind, metadata, a table's columns.
struct encode_list {
    uint64_t revision;
    struct str continue_token;
    int64_t remaining; // -1: unknown
};

void encode_list_head(const struct encode_how *how, const struct encode_list *list,
                      struct sbuf *out);

// encode_list_tail closes the list.
void encode_list_tail(struct sbuf *out);

// encode_revision adds json with its metadata.resourceVersion replaced.
void encode_revision(struct str json, uint64_t revision, struct sbuf *out);

// encode_metadata adds the value of an object's metadata, found in its JSON.
void encode_metadata(struct str json, struct sbuf *out);

// encode_bookmark makes a BOOKMARK event. initial_end: it ends the initial events.
struct net_buf *encode_bookmark(const struct encode_how *how, uint64_t revision, bool initial_end);

// encode_error makes an ERROR event of a Status.
struct net_buf *encode_error(const struct encode_how *how, const struct api_status *status);

// --- Events --------------------------------------------------------------------------------------

#define ENCODE_CACHE_SLOTS 16

struct encode_slot {
    const struct object *object; // referenced; NULL: free
    uint64_t revision;
    enum store_event_type type;
    struct encode_how how;
    struct net_buf *bytes;
};

// The events of the last moment. Zeroed, it is empty.
struct encode_cache {
    struct encode_slot slots[ENCODE_CACHE_SLOTS];
    size_t next;
    uint64_t hits, misses;
};

// encode_event_to adds an event: object o, shown at revision.
void encode_event_to(enum store_event_type type, const struct object *o, uint64_t revision,
                     const struct encode_how *how, struct sbuf *out);

// encode_event gives the same, from the cache if it is there. The caller owns a reference.
struct net_buf *encode_event(struct encode_cache *c, enum store_event_type type,
                             const struct object *o, uint64_t revision,
                             const struct encode_how *how);
void encode_cache_done(struct encode_cache *c);

// --- Protobuf (encode_proto.c) -------------------------------------------------------------------

// encode_proto_object adds an object in its envelope, whole or as metadata alone.
int encode_proto_object(const struct object *o, const struct encode_how *how, uint64_t revision,
                        struct sbuf *out, struct err *err) MUST_USE;

// encode_proto_item adds an object as an item of a list's message.
int encode_proto_item(const struct object *o, const struct encode_how *how, struct sbuf *out,
                      struct err *err) MUST_USE;

// encode_proto_list_head adds all that stands before items of items_len bytes: the envelope's
// beginning and the list's metadata.
void encode_proto_list_head(const struct encode_how *how, const struct encode_list *list,
                            size_t items_len, struct sbuf *out);

// encode_proto_frame adds an event with an object that is in its envelope; type is ADDED and so on.
void encode_proto_frame(struct str type, struct str object, struct sbuf *out);

// encode_proto_bookmark adds the object of a bookmark, in its envelope.
void encode_proto_bookmark(const struct encode_how *how, uint64_t revision, bool initial_end,
                           struct sbuf *out);

// encode_proto_status adds a Status in its envelope.
void encode_proto_status(const struct api_status *status, struct sbuf *out);

// encode_object_buf makes bytes of an object as it is stored, without a copy.
struct net_buf *encode_object_buf(const struct object *o);

#endif

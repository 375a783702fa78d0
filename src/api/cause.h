// SPDX-License-Identifier: Apache-2.0
//
// What is wrong with an object, in the words of Kubernetes: a list of causes, each with a reason, a
// field path and a message, in the order in which they were found. Also field paths, built on the
// stack while walking down an object and written out only when there is something to report.
#ifndef API_CAUSE_H
#define API_CAUSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/str.h"
#include "cel/cel.h"

// One step of a field path. Paths are chains of these on the stack, innermost first.
struct path {
    const struct path *parent; // NULL for the first step
    struct str name;           // .name, or [name] when it is a map key
    size_t index;              // [index]
    enum { PATH_FIELD, PATH_INDEX, PATH_KEY } kind;
};

static inline struct path path_root(struct str name)
{
    return (struct path){.name = name, .kind = PATH_FIELD};
}

static inline struct path path_field(const struct path *parent, struct str name)
{
    return (struct path){.parent = parent, .name = name, .kind = PATH_FIELD};
}

static inline struct path path_index(const struct path *parent, size_t index)
{
    return (struct path){.parent = parent, .index = index, .kind = PATH_INDEX};
}

static inline struct path path_key(const struct path *parent, struct str key)
{
    return (struct path){.parent = parent, .name = key, .kind = PATH_KEY};
}

// path_write adds the path as Kubernetes prints it: spec.devices[0].attributes[name].string.
void path_write(const struct path *p, struct sbuf *out);

// The reasons, in the words of a Status cause (cause_reason).
enum cause_type {
    CAUSE_NOT_FOUND,
    CAUSE_REQUIRED,
    CAUSE_DUPLICATE,
    CAUSE_INVALID,
    CAUSE_NOT_SUPPORTED,
    CAUSE_FORBIDDEN,
    CAUSE_TOO_LONG,
    CAUSE_TOO_MANY,
    CAUSE_TOO_FEW,
    CAUSE_INTERNAL,
    CAUSE_TYPE_INVALID,
    CAUSE_TOO_SHORT,
};

// Which rule found it, in the words of declarative validation ("maxItems", "format=k8s-uuid"), NULL
// when there is none.
typedef const char *cause_origin;

struct cause {
    enum cause_type type;
    struct str field;
    struct str message; // "Invalid value: \"x\": must be …"
    cause_origin origin;
    bool covered;  // found by hand, but also found by a declarative rule
    bool declared; // found by a declarative rule
    bool beta;     // and one that takes the place of what is covered
};

// The list. Zeroed but for arena it is empty; everything in it lives in that arena. A list that has
// grown beyond all use takes no more: an object may be wrong in very many places, and some messages
// show a whole list of it.
struct causes {
    struct arena *arena;
    struct cause *p;
    size_t n;
    size_t cap;
    size_t bytes; // of texts
    struct cel_spending cel;
};

#define CAUSES_BYTES_MAX ((size_t)16 * 1024 * 1024)

static inline bool causes_full(const struct causes *c)
{
    return c->bytes > CAUSES_BYTES_MAX;
}

// cause_reason names a type as a Status cause's reason: FieldValueInvalid, ….
const char *cause_reason(enum cause_type type);

// cause_add adds one as it stands: "Title: value: detail", leaving out what is empty.
size_t cause_add(struct causes *c, enum cause_type type, const struct path *at, struct str value,
                 struct str detail);

// The functions below add one cause and return its index, so that callers can set origin and
// covered; that of the last one when the list is full. detail may be empty.
size_t cause_required(struct causes *c, const struct path *at, struct str detail);
size_t cause_forbidden(struct causes *c, const struct path *at, struct str detail);
size_t cause_too_long(struct causes *c, const struct path *at, size_t most_bytes);
size_t cause_too_long_characters(struct causes *c, const struct path *at, size_t most);
size_t cause_too_many(struct causes *c, const struct path *at, size_t have, size_t most);
size_t cause_internal(struct causes *c, const struct path *at, struct str detail);

// cause_invalid shows the bad value quoted as a string. The _json, _i64 and _bool forms show it as
// it stands; _plain shows no value.
size_t cause_invalid(struct causes *c, const struct path *at, struct str value, struct str detail);
size_t cause_invalid_json(struct causes *c, const struct path *at, struct str json,
                          struct str detail);
size_t cause_invalid_i64(struct causes *c, const struct path *at, int64_t value, struct str detail);
size_t cause_invalid_bool(struct causes *c, const struct path *at, bool value, struct str detail);
size_t cause_invalid_plain(struct causes *c, const struct path *at, struct str detail);

// cause_duplicate and cause_not_found show the value quoted; the _json forms as it stands.
size_t cause_duplicate(struct causes *c, const struct path *at, struct str value);
size_t cause_duplicate_json(struct causes *c, const struct path *at, struct str json);
size_t cause_not_found(struct causes *c, const struct path *at, struct str value);
size_t cause_not_found_because(struct causes *c, const struct path *at, struct str value,
                               struct str detail);

// cause_not_supported lists the supported values in the order given.
size_t cause_not_supported(struct causes *c, const struct path *at, struct str value,
                           const struct str *supported, size_t supported_n);

// causes_mark sets origin (if not NULL) and covered on everything added since index `from`.
void causes_mark(struct causes *c, size_t from, cause_origin origin, bool covered);

#endif

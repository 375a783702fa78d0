// SPDX-License-Identifier: Apache-2.0
//
// What stands behind the question mark: options of lists and watches, of writes and deletions, read
// and judged as Kubernetes does.
#ifndef SERVER_QUERY_H
#define SERVER_QUERY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/api.h"
#include "api/cause.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "base/vec.h"

struct query_pair {
    struct str name;
    struct str value;
};

struct query VEC(struct query_pair);

// More pairs than this are not looked at.
#define QUERY_PAIRS_MAX 256

// query_parse takes a query apart and decodes it into arena. Pairs that cannot be decoded are
// dropped, as Go does.
void query_parse(struct str text, struct arena *arena, struct query *ret);

// query_get finds the first value of a name; false when there is none.
bool query_get(const struct query *q, struct str name, struct str *ret);

// query_str is query_get with the empty string for nothing.
struct str query_str(const struct query *q, struct str name);

// query_escape adds a text as it stands in a query.
void query_escape(struct str text, struct sbuf *out);

// query_bool: absent, 0 and false are false, all else is true.
bool query_bool(const struct query *q, struct str name);

// Of a flag that may be absent.
enum query_flag { QUERY_ABSENT, QUERY_FALSE, QUERY_TRUE };
enum query_flag query_flag(const struct query *q, struct str name);

// query_i64 reads a number. Returns 1, 0 when it is absent, or -ERR_BAD_REQUEST.
int query_i64(const struct query *q, struct str name, int64_t *ret, struct err *err) MUST_USE;

// --- Lists and watches ---------------------------------------------------------------------------

enum query_match { QUERY_MATCH_NONE, QUERY_MATCH_EXACT, QUERY_MATCH_NOT_OLDER };

struct list_options {
    struct str label_selector;
    struct str field_selector;
    struct str continue_token;
    struct str resource_version; // as given
    uint64_t revision;           // the same as a number; 0 for none and for "0"
    enum query_match match;
    int64_t limit;
    int64_t timeout_seconds; // 0: none given
    bool watch;
    bool allow_bookmarks;
    enum query_flag send_initial; // after Kubernetes' defaults
};

// query_list_options reads the options of a list or watch. Returns 0; -ERR_BAD_REQUEST for what
// cannot be read; -ERR_INVALID with causes for what makes no sense.
int query_list_options(const struct query *q, bool watch, struct list_options *ret,
                       struct causes *causes, struct err *err) MUST_USE;

// --- Writes --------------------------------------------------------------------------------------

enum query_validation { QUERY_FIELDS_WARN, QUERY_FIELDS_IGNORE, QUERY_FIELDS_STRICT };

struct write_options {
    bool dry_run;
    bool force;
    enum query_validation fields;
    struct str field_manager;
};

// query_write_options reads the options of a create, update or (apply says which) patch. Returns as
// query_list_options.
int query_write_options(const struct query *q, bool patch, bool apply, struct write_options *ret,
                        struct causes *causes) MUST_USE;

// query_delete_options fills in what a deletion without a body says. one: it is of one object, whose
// UID and version may be named (of a collection resourceVersion means something else). Returns as
// query_list_options.
int query_delete_options(const struct query *q, bool one, struct arena *arena,
                         struct api_delete_options *ret, struct err *err) MUST_USE;

// query_check_delete_options judges options, wherever they came from.
int query_check_delete_options(const struct api_delete_options *options,
                               struct causes *causes) MUST_USE;

#endif

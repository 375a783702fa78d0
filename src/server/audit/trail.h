// SPDX-License-Identifier: Apache-2.0
//
// What the server records of a request on its way. A request that the policy does not record has no
// trail and costs a test of a pointer at each call below.
#ifndef SERVER_AUDIT_TRAIL_H
#define SERVER_AUDIT_TRAIL_H

#include "api/api.h"
#include "base/str.h"
#include "server/audit.h"

struct exchange;
struct object;

// audit_write_metrics adds counters; a may be NULL.
void audit_write_metrics(struct audit *a, struct sbuf *out);

// --- A request, in order -------------------------------------------------------------------------

// audit_identify gives the exchange its Audit-ID: the client's, or a new one.
void audit_identify(struct exchange *ex);

// audit_begin asks the policy and records that the request was received. Where the user is not
// known, only the refusal is recorded, as upstream does: when its response starts.
void audit_begin(struct exchange *ex, bool known);

// audit_impersonate notes that ex->user is another than the one who asked.
void audit_impersonate(struct exchange *ex);

// audit_note adds an annotation; value is copied.
void audit_note(struct exchange *ex, struct str key, struct str value);

// audit_request_object keeps the body of a write, as it was read; audit_request_patch a patch, in
// JSON or YAML.
void audit_request_object(struct exchange *ex, const struct api_object *body);
void audit_request_patch(struct exchange *ex, struct str patch);

// audit_response_object, _status, _body and _piece keep the answer; the last two only where nothing
// was kept before, and not for schemas. Pieces are of one body, in order, and kept with the last;
// where they are not JSON it is noted that the body was not kept.
void audit_response_object(struct exchange *ex, const struct object *o, const struct api_kind *as);
void audit_response_status(struct exchange *ex, const struct api_status *status);
void audit_response_body(struct exchange *ex, struct str json);
void audit_response_piece(struct exchange *ex, bool json, struct str piece, bool last);

// audit_started records that a long request (watch, log, exec) has begun to be answered, others it
// passes over; audit_end that a request is over.
void audit_started(struct exchange *ex, int code);
void audit_end(struct exchange *ex, int code);

#endif

// SPDX-License-Identifier: Apache-2.0
//
// Request bodies: JSON, YAML or protobuf to a typed object of the kind that a path expects.
#ifndef SERVER_HTTP_BODY_H
#define SERVER_HTTP_BODY_H

#include "api/api.h"
#include "base/arena.h"
#include "base/err.h"
#include "codec/json_strict.h"
#include "server/http/negotiate.h"

// body_decode reads an object of kind want; apiVersion and kind may be missing, then they are
// want's. strict, if not NULL, collects unknown and repeated fields. Returns 0 or -ERR_BAD_REQUEST
// with upstream's text.
int body_decode(struct str body, enum media media, const struct api_kind *want, struct arena *arena,
                struct json_strict *strict, struct api_object *ret, struct err *err) MUST_USE;

// body_delete_options reads DeleteOptions of any group. Returns 0 or -ERR_BAD_REQUEST.
int body_delete_options(struct str body, enum media media, struct arena *arena,
                        struct api_delete_options **ret, struct err *err) MUST_USE;

#endif

// SPDX-License-Identifier: Apache-2.0
//
// The three kinds of patch that change an object in place: JSON patch (RFC 6902), JSON merge patch
// (RFC 7386) and Kubernetes' strategic merge patch. Each takes the object as it is stored and the
// patch, both parsed, and adds the text of the patched object to out, to be parsed and decoded like
// any other body. What a patch does not reach is copied byte for byte from the object's source.
//
// Behaviour and error texts are those of the libraries in kube-apiserver 1.37
// (gopkg.in/evanphx/json-patch.v4, apimachinery's strategicpatch), their quirks included: a replace
// of a missing member adds it, array indexes may be negative. Where those would panic, we fail.
//
// The documents may hold repeated keys (JSON_DUPLICATES_KEEP); the last one counts. strict is NULL
// for fieldValidation=Ignore; otherwise it collects what is unknown or repeated in the patch
// itself, to be put before the reports of decoding the result, and the patch must have the right
// types.
//
// Returned codes: 0; -ERR_BAD_REQUEST (400) for what is not such a patch; -ERR_TOO_LARGE (413) for
// too many operations; -ERR_INVALID (422) for a JSON patch that does not apply, or a list of lists
// in a strategic one; -ERR_INTERNAL (500, with the bare message) for the other ways in which a
// strategic patch fails, which upstream does not translate. On failure out has no meaning.
#ifndef API_PATCH_H
#define API_PATCH_H

#include "api/table.h"
#include "base/err.h"
#include "base/str.h"
#include "codec/json.h"
#include "codec/json_strict.h"

// As kube-apiserver: operations of one JSON patch, and how many bytes its copies may add.
#define API_PATCH_OPERATIONS_MAX 10000
#define API_PATCH_COPY_BYTES_MAX (3 * 1024 * 1024)

int api_patch_json(const struct json_doc *object, const struct json_doc *patch,
                   struct json_strict *strict, struct sbuf *out, struct err *err) MUST_USE;

int api_patch_merge(const struct json_doc *object, const struct json_doc *patch,
                    struct json_strict *strict, struct sbuf *out, struct err *err) MUST_USE;

// api_patch_strategic merges lists and structs by the schema of type. A NULL type stands for a
// kind that is not in the schema, for which there is no strategic merge patch.
int api_patch_strategic(const struct api_type *type, const struct json_doc *object,
                        const struct json_doc *patch, struct json_strict *strict, struct sbuf *out,
                        struct err *err) MUST_USE;

#endif

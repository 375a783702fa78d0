// SPDX-License-Identifier: Apache-2.0
//
// JSON kept as text: what RawExtension and FieldsV1 hold. Private to src/api.
#ifndef API_TYPE_RAW_H
#define API_TYPE_RAW_H

#include "base/err.h"
#include "base/str.h"
#include "codec/json.h"
#include "codec/json_writer.h"

// raw_source finds the text of v, the value behind key (may be NULL) in an object of doc, in the
// document's source. The empty slice with a NULL pointer when it is unknown.
struct str raw_source(const struct json_doc *doc, const yyjson_val *key, const yyjson_val *v);

// raw_write writes a JSON text through w, without its white space and with Go's HTML escapes if w
// has them; w->altered is set when that is another text. Returns 0, or -ERR_INVALID when the text
// is not one JSON value nested less deep than DRAY_DOC_DEPTH_MAX.
int raw_write(struct str text, struct json_writer *w, struct err *err) MUST_USE;

#endif

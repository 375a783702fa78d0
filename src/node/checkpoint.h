// SPDX-License-Identifier: Apache-2.0
//
// The text of kubelet's dra_manager_state: what it writes loads here, what is written here loads
// there. Pure functions over bytes; files are in node/machine/disk.h.
#ifndef NODE_CHECKPOINT_H
#define NODE_CHECKPOINT_H

#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "codec/json.h"
#include "node/dra/claims.h"

#define CHECKPOINT_CLAIMS_MAX 1000000 // in a file; a node has hundreds

// checkpoint_write adds the text. Claims come in the order they were added, sets sorted, as Go
// does.
void checkpoint_write(const struct node_claims *claims, struct sbuf *out);

// checkpoint_read adds the claims of a text to ret, which must be empty. As kubelet, it ignores
// what it does not know and takes what is missing as empty; of two claims with the same key the
// last counts. Returns 0, or -ERR_INVALID (the checksum is wrong) or -ERR_BAD_REQUEST (not such a
// text); then ret is empty.
int checkpoint_read(struct str text, struct node_claims *ret, struct err *err) MUST_USE;

// checkpoint_crc is CRC-32 as in Ethernet and zlib (IEEE).
uint32_t checkpoint_crc(struct str bytes);

// For other checkpoints in kubelet's manner: how much JSON is taken; a member, or NULL when it is
// missing or null; its text, empty when it is missing.
extern const struct json_options checkpoint_json;
const yyjson_val *checkpoint_member(const yyjson_val *in, struct str key);
int checkpoint_text(const yyjson_val *in, struct str key, struct str *ret,
                    struct err *err) MUST_USE;

#endif

// SPDX-License-Identifier: Apache-2.0
//
// Schemas of CustomResourceDefinitions in protobuf. Objects hold them as JSON text; on the wire
// they are messages of type JSONSchemaProps. Private to src/api.
#ifndef API_CRD_SCHEMA_PROTO_H
#define API_CRD_SCHEMA_PROTO_H

#include "base/err.h"
#include "codec/proto.h"

// schema_proto_read writes a message as JSON, members in Kubernetes' order. Fields must come by
// ascending number and keys of maps in order, as Kubernetes' libraries write them; others are
// -ERR_BAD_REQUEST, as is what JSON cannot say, nests too deep or gets too large.
int schema_proto_read(struct proto_reader in, struct sbuf *out, struct err *err) MUST_USE;

// schema_proto_write writes the content of the message for a JSON text. Members that no schema has
// are left out; a text that is no JSON is an empty message.
void schema_proto_write(struct str json, struct proto_writer *w);

#endif

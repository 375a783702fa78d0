// SPDX-License-Identifier: Apache-2.0
//
// The parts of gRPC that are texts and bytes: pure functions.
#ifndef NET_GRPC_GRPC_WIRE_H
#define NET_GRPC_GRPC_WIRE_H

#include "net/grpc.h"

#define GRPC_PREFIX_BYTES ((size_t)5)

// grpc_timeout_read understands a grpc-timeout ("100m"). Returns 0 or -ERR_BAD_REQUEST. Times past
// 100 years are cut to that.
int grpc_timeout_read(struct str s, int64_t *ret_ns) MUST_USE;

// grpc_timeout_write writes a time in the finest unit that fits, rounded up.
void grpc_timeout_write(int64_t ns, struct sbuf *out);

// grpc_percent_encode adds a grpc-message; percent_decode_lenient (codec/percent.h) reads one.
void grpc_percent_encode(struct str s, struct sbuf *out);

// grpc_frame_next finds a message at the beginning of `in`. Returns GRPC_OK with *ret_used 0 when
// there is none yet; GRPC_UNIMPLEMENTED for a compressed one, GRPC_RESOURCE_EXHAUSTED over the
// limit.
enum grpc_status grpc_frame_next(struct str in, size_t limit, struct str *ret_message,
                                 size_t *ret_used);

// grpc_prefix writes the five bytes before a message.
void grpc_prefix(char to[GRPC_PREFIX_BYTES], size_t message_bytes);

// grpc_status_read reads a grpc-status; what is no known number is UNKNOWN.
enum grpc_status grpc_status_read(struct str s);

// grpc_status_of_http and grpc_status_of_reset: for answers that do not come from gRPC.
enum grpc_status grpc_status_of_http(int status);
enum grpc_status grpc_status_of_reset(uint32_t code);

// grpc_meta_reserved: a name that metadata must not have, or that is not one.
bool grpc_meta_reserved(struct str name);

#endif

// SPDX-License-Identifier: Apache-2.0
//
// Which form an answer takes (the Accept header) and which one a body has (Content-Type), by the
// rules of kube-apiserver.
#ifndef SERVER_HTTP_NEGOTIATE_H
#define SERVER_HTTP_NEGOTIATE_H

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"

enum media {
    MEDIA_JSON,
    MEDIA_YAML,
    MEDIA_PROTOBUF,
    MEDIA_OPENAPI, // OpenAPI v2's own protobuf
};

// What an object is turned into before it is written.
enum form_as {
    FORM_OBJECT,
    FORM_TABLE,
    FORM_METADATA, // PartialObjectMetadata and its list
    FORM_DISCOVERY_V2,
    FORM_DISCOVERY_V2BETA1,
};

struct form {
    enum media media;
    enum form_as as;
    bool v1beta1; // of meta.k8s.io, for metadata
    bool pretty;
};

// Representations other than plain objects.
enum form_allowed {
    FORM_ALLOW_TRANSFORMS = 1 << 0, // tables and metadata
    FORM_ALLOW_DISCOVERY = 1 << 1,  // aggregated discovery
    FORM_ALLOW_PROTOBUF = 1 << 2,   // the answer exists in protobuf
    FORM_ALLOW_OPENAPI = 1 << 3,    // it is an OpenAPI v2 document
};

// Clauses of an Accept header beyond this many are not looked at.
#define ACCEPT_CLAUSES_MAX 32

// negotiate_accept chooses the form. Returns 0, or -ERR_UNSUPPORTED with upstream's text when there
// is none that both sides know (406).
int negotiate_accept(struct str header, unsigned allowed, struct form *ret,
                     struct err *err) MUST_USE;

// negotiate_body reads a Content-Type; an empty one is JSON. Returns 0 or -ERR_UNSUPPORTED (415).
int negotiate_body(struct str header, enum media *ret, struct err *err) MUST_USE;

enum patch_media { PATCH_JSON, PATCH_MERGE, PATCH_STRATEGIC, PATCH_APPLY };

// negotiate_patch reads the Content-Type of a patch. Returns 0 or -ERR_UNSUPPORTED (415).
int negotiate_patch(struct str header, enum patch_media *ret, struct err *err) MUST_USE;

#endif

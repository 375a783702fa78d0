// SPDX-License-Identifier: Apache-2.0
//
// The documents of an image: index, manifest, configuration, as the OCI image specification and
// Docker's older forms have them, and docker-archive's manifest.json. Pure functions over bytes;
// texts live in the arena. Nothing is believed that a digest does not cover: digests are checked
// for form here, for content by the reader of the blob.
#ifndef NODE_IMAGE_IMAGE_MANIFEST_H
#define NODE_IMAGE_IMAGE_MANIFEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "base/vec.h"

#define IMAGE_DOCUMENT_BYTES_MAX ((size_t)4 << 20) // of one document, as registries have it
#define IMAGE_LAYERS_MAX         256
#define IMAGE_MANIFESTS_MAX      4096 // of an index
#define IMAGE_WORDS_MAX          4096 // of a command, an environment

struct image_texts VEC(struct str);

// What a blob is: sha256:… or sha512:…, lower case, whole.
struct image_blob_ref {
    struct str media_type;
    struct str digest;
    uint64_t size;
};
struct image_blob_refs VEC(struct image_blob_ref);

struct image_platform {
    const char *os, *architecture, *variant; // variant "": any
};

// image_platform_here is the machine's.
struct image_platform image_platform_here(void);

// One entry of an index.
struct image_choice {
    struct image_blob_ref blob;
    struct str name;     // annotation org.opencontainers.image.ref.name
    struct str fullname; // annotation io.containerd.image.name
    bool is_index;
    bool has_platform, platform_fits;
};
struct image_choices VEC(struct image_choice);

struct image_manifest {
    struct image_blob_ref config;
    struct image_blob_refs layers; // the lowest first
};

struct image_config {
    struct image_texts entrypoint, command, env; // env: NAME=VALUE
    struct str user, working_dir, stop_signal;
    struct image_texts diff_ids; // digests of the layers' tar archives
};

// One image of docker-archive's manifest.json.
struct image_docker {
    struct str config;         // a file of the archive
    struct image_texts names;  // RepoTags
    struct image_texts layers; // files of the archive
};
struct image_dockers VEC(struct image_docker);

// Each reads one document. Return 0, -ERR_BAD_REQUEST (not JSON), -ERR_INVALID (not such a
// document, a bad digest), -ERR_TOO_LARGE, -ERR_UNSUPPORTED (a kind that is not known), with a
// path.
int image_index_read(struct str text, const struct image_platform *platform, struct arena *arena,
                     struct image_choices *ret, struct err *err) MUST_USE;
int image_manifest_read(struct str text, struct arena *arena, struct image_manifest *ret,
                        struct err *err) MUST_USE;
int image_config_read(struct str text, struct arena *arena, struct image_config *ret,
                      struct err *err) MUST_USE;
int image_docker_read(struct str text, struct arena *arena, struct image_dockers *ret,
                      struct err *err) MUST_USE;

// image_digest_ok: sha256: or sha512: and the right number of lower-case hexadecimal digits.
bool image_digest_ok(struct str digest);

enum image_compression { IMAGE_PLAIN, IMAGE_GZIP, IMAGE_ZSTD };

// image_layer_kind is how a layer is compressed. Returns 0 or -ERR_UNSUPPORTED.
int image_layer_kind(struct str media_type, enum image_compression *ret, struct err *err) MUST_USE;

// image_reference_full completes a reference as Docker and Kubernetes do: "busybox" becomes
// docker.io/library/busybox:latest. Returns 0 or -ERR_BAD_REQUEST (InvalidImageName).
int image_reference_full(struct str reference, struct arena *arena, struct str *ret,
                         struct err *err) MUST_USE;

#endif

// SPDX-License-Identifier: Apache-2.0
//
// The documents of images, and references. The first byte chooses: index, manifest, configuration, docker's
// manifest.json, a reference, a layer's type. Laws: what is refused says why; digests that come through are whole;
// a completed reference is complete.
#include <assert.h>

#include "fuzz.h"
#include "node/image/image_manifest.h"

#include "base/banned.h"

static void check_blob(const struct image_blob_ref *b)
{
    assert(image_digest_ok(b->digest));
    // A digest becomes a file's name.
    assert(str_find_char(b->digest, '/') < 0 && str_find_char(b->digest, '.') < 0);
}

static void check_texts(const struct image_texts *all)
{
    assert(all->n <= IMAGE_WORDS_MAX);
    vec_foreach(all, s)
        assert(!memchr(s->p, '\0', s->n) && s->p[s->n] == '\0');
}

static int index_of(struct str text, struct arena *a, struct err *err)
{
    const struct image_platform here = {"linux", "amd64", ""};
    struct image_choices all = {0};
    int rc = image_index_read(text, &here, a, &all, err);
    if (rc == 0) {
        assert(all.n <= IMAGE_MANIFESTS_MAX);
        vec_foreach(&all, c)
            check_blob(&c->blob);
    }
    return rc;
}

static int manifest_of(struct str text, struct arena *a, struct err *err)
{
    struct image_manifest m;
    int rc = image_manifest_read(text, a, &m, err);
    if (rc == 0) {
        check_blob(&m.config);
        assert(m.layers.n <= IMAGE_LAYERS_MAX);
        vec_foreach(&m.layers, l)
            check_blob(l);
    }
    return rc;
}

static int config_of(struct str text, struct arena *a, struct err *err)
{
    struct image_config c;
    int rc = image_config_read(text, a, &c, err);
    if (rc == 0) {
        check_texts(&c.entrypoint);
        check_texts(&c.command);
        check_texts(&c.env);
        vec_foreach(&c.diff_ids, d)
            assert(image_digest_ok(*d));
    }
    return rc;
}

static int docker_of(struct str text, struct arena *a, struct err *err)
{
    struct image_dockers all = {0};
    int rc = image_docker_read(text, a, &all, err);
    if (rc == 0)
        vec_foreach(&all, d)
            check_texts(&d->layers);
    return rc;
}

static int reference_of(struct str text, struct arena *a, struct err *err)
{
    struct str full, again;
    int rc = image_reference_full(text, a, &full, err);
    if (rc == 0) {
        int second = image_reference_full(full, a, &again, err);
        assert(second == 0 && str_eq(full, again));
        assert(!str_contains(full, STR("..")) && !memchr(full.p, '\0', full.n));
    }
    return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int (*const readers[])(struct str, struct arena *, struct err *) = {
        index_of, manifest_of, config_of, docker_of, reference_of};
    struct arena a = {0};
    struct err err = {0};
    if (size == 0)
        return 0;
    struct str text = str_make((const char *)data + 1, size - 1);
    int rc = readers[data[0] % array_len(readers)](text, &a, &err);
    assert(rc == 0 || err.msg[0]);
    arena_done(&a);
    return 0;
}

// SPDX-License-Identifier: Apache-2.0
//
// Reading a spec: YAML or JSON to a document, and the document to structs by the tables of
// schema.c. Scalars are taken as go-yaml takes them, since that is what runtimes read these files
// with: where a text is meant, a bare 0 or true is the text as it stands in the file.
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <sys/stat.h>

#include "cdi/schema.h"
#include "cdi/spec.h"
#include "codec/docs.h"
#include "codec/json.h"
#include "os/file.h"

#include "base/banned.h"

struct reader {
    struct arena *arena;
    struct json_doc doc;
    struct str text;
    size_t bare; // scalars looked up in the text
};

// Reads into the struct at `to`. Mutually recursive through lists and objects, as deep as the
// tables.
static int cdi_parse_object(struct reader *rd, const yyjson_val *v, const struct cdi_type *type,
                            char *to, struct err *err);

static int cdi_parse_wrong_type(struct reader *rd, const yyjson_val *v, const char *want,
                                struct err *err)
{
    struct json_pos pos;
    int r = err_set(err, ERR_BAD_REQUEST, "this must be %s, not %s", want, json_type_name(v));
    if (json_locate(&rd->doc, v, &pos))
        err_at(err, pos.line, pos.column);
    return r;
}

// Where a place is in the text. Columns of YAML count characters, those of JSON bytes.
static size_t cdi_parse_offset(struct str text, struct json_pos pos, bool characters)
{
    size_t at = 0;
    for (uint32_t line = 1; line < pos.line && at < text.n; line++) {
        const char *end = memchr(text.p + at, '\n', text.n - at);
        at = end ? (size_t)(end - text.p) + 1 : text.n;
    }
    for (uint32_t column = 1; column < pos.column && at < text.n; column++) {
        at++;
        while (characters && at < text.n && ((unsigned char)text.p[at] & 0xC0) == 0x80)
            at++;
    }
    return at;
}

// The number or boolean v as it stands in the file.
static int read_bare(struct reader *rd, const yyjson_val *v, struct str *ret, struct err *err)
{
    static const char ends[] = " \t\r\n,]}";
    struct json_pos pos;
    if (++rd->bare > CDI_BARE_SCALARS_MAX || !json_locate(&rd->doc, v, &pos))
        return cdi_parse_wrong_type(rd, v, "a text in quotes", err);
    size_t from = cdi_parse_offset(rd->text, pos, rd->doc.positions != NULL), to = from;
    while (to < rd->text.n && !memchr(ends, rd->text.p[to], sizeof(ends) - 1))
        to++;
    struct str word = str_make(rd->text.p + from, to - from);
    // An anchor, a tag or an alias stands there: what it means is not in this place of the text.
    if (word.n == 0 || str_find_char(STR("&!*"), word.p[0]) >= 0)
        return cdi_parse_wrong_type(rd, v, "a text in quotes", err);
    *ret = arena_str(rd->arena, word);
    return 0;
}

static int cdi_parse_text(struct reader *rd, const yyjson_val *v, struct str *ret, struct err *err)
{
    if (json_is_null(v))
        return 0;
    if (json_is_container(v))
        return cdi_parse_wrong_type(rd, v, "a text", err);
    if (!json_is_string(v))
        return read_bare(rd, v, ret, err);
    *ret = arena_str(rd->arena, json_str(v));
    return 0;
}

static int cdi_parse_int(struct reader *rd, const yyjson_val *v, int64_t *ret, struct err *err)
{
    return json_is_integral(v, ret) ? 0
                                    : cdi_parse_wrong_type(rd, v, "a whole number of 64 bits", err);
}

static int read_u32(struct reader *rd, const yyjson_val *v, uint32_t *ret, struct err *err)
{
    int64_t wide;
    if (!json_is_integral(v, &wide) || wide < 0 || wide > UINT32_MAX)
        return cdi_parse_wrong_type(rd, v, "a whole number from 0 to 4294967295", err);
    *ret = (uint32_t)wide;
    return 0;
}

static int cdi_parse_texts(struct reader *rd, const yyjson_val *v, struct cdi_texts *ret,
                           struct err *err)
{
    if (!json_is_array(v))
        return cdi_parse_wrong_type(rd, v, "a list of texts", err);
    size_t n = json_len(v), i = 0;
    *ret = (struct cdi_texts){.p = arena_array(rd->arena, struct str, n ? n : 1), .cap = n};
    json_arr_foreach(v, item) {
        // go-yaml leaves entries out that are null.
        int r = json_is_null(item) ? 0 : cdi_parse_text(rd, item, &ret->p[ret->n++], err);
        if (r != 0) {
            err_path_index(err, i);
            return r;
        }
        i++;
    }
    return 0;
}

static int read_u32s(struct reader *rd, const yyjson_val *v, struct cdi_gids *ret, struct err *err)
{
    if (!json_is_array(v))
        return cdi_parse_wrong_type(rd, v, "a list of numbers", err);
    size_t n = json_len(v), i = 0;
    *ret = (struct cdi_gids){.p = arena_array(rd->arena, uint32_t, n ? n : 1), .cap = n};
    json_arr_foreach(v, item) {
        int r = json_is_null(item) ? 0 : read_u32(rd, item, &ret->p[ret->n++], err);
        if (r != 0) {
            err_path_index(err, i);
            return r;
        }
        i++;
    }
    return 0;
}

static int cdi_parse_pairs(struct reader *rd, const yyjson_val *v, struct cdi_pairs *ret,
                           struct err *err)
{
    if (!json_is_object(v))
        return cdi_parse_wrong_type(rd, v, "an object of texts", err);
    size_t n = json_len(v), i = 0;
    *ret = (struct cdi_pairs){
        .p = arena_array(rd->arena, struct cdi_pair, n ? n : 1), .n = n, .cap = n};
    json_obj_foreach(v, key, value) {
        struct cdi_pair *pair = &ret->p[i++];
        pair->key = arena_str(rd->arena, json_str(key));
        int r = cdi_parse_text(rd, value, &pair->value, err);
        if (r != 0) {
            err_path_key(err, pair->key.p, pair->key.n);
            return r;
        }
    }
    return 0;
}

static int cdi_parse_list(struct reader *rd, const yyjson_val *v, const struct cdi_type *type,
                          void *to, struct err *err)
{
    if (!json_is_array(v))
        return cdi_parse_wrong_type(rd, v, "a list of objects", err);
    size_t n = json_len(v), i = 0;
    char *items = arena_alloc_array(rd->arena, n ? n : 1, type->size, _Alignof(max_align_t));
    struct cdi_any_list list = {.p = items, .cap = n};
    json_arr_foreach(v, item) {
        // Upstream leaves devices out that are null, and crashes on other objects that are.
        bool skip = json_is_null(item) && type == &cdi_type_device;
        int r = skip ? 0 : cdi_parse_object(rd, item, type, items + list.n++ * type->size, err);
        if (r != 0) {
            err_path_index(err, i);
            return r;
        }
        i++;
    }
    memcpy(to, &list, sizeof(list));
    return 0;
}

// Callers give memory that is aligned for the field's type; only the compiler cannot see it.
static int cdi_parse_field(struct reader *rd, const yyjson_val *v, const struct cdi_field *f,
                           void *to, struct err *err)
{
    if (json_is_null(v))
        return 0;
    switch (f->shape) {
    case CDI_TEXT:
        return cdi_parse_text(rd, v, to, err);
    case CDI_INT:
        return cdi_parse_int(rd, v, to, err);
    case CDI_OPT_INT:
        ((struct cdi_opt_i64 *)to)->set = true;
        return cdi_parse_int(rd, v, &((struct cdi_opt_i64 *)to)->value, err);
    case CDI_OPT_U32:
        ((struct cdi_opt_u32 *)to)->set = true;
        return read_u32(rd, v, &((struct cdi_opt_u32 *)to)->value, err);
    case CDI_BOOL:
        return json_to_bool(v, to, NULL) == 0 ? 0
                                              : cdi_parse_wrong_type(rd, v, "true or false", err);
    case CDI_TEXTS:
        return cdi_parse_texts(rd, v, to, err);
    case CDI_U32S:
        return read_u32s(rd, v, to, err);
    case CDI_PAIRS:
        return cdi_parse_pairs(rd, v, to, err);
    case CDI_OBJECT:
        return cdi_parse_object(rd, v, f->type, to, err);
    case CDI_OPT_OBJECT: {
        void *made = arena_alloc(rd->arena, f->type->size, _Alignof(max_align_t));
        memcpy(to, &made, sizeof(made));
        return cdi_parse_object(rd, v, f->type, made, err);
    }
    case CDI_LIST:
        return cdi_parse_list(rd, v, f->type, to, err);
    }
    assert(false);
    return -ERR_INTERNAL;
}

static int unknown_field(struct reader *rd, const yyjson_val *key, const struct cdi_type *type,
                         struct err *err)
{
    struct str name = str_upto(json_str(key), 100);
    cleanup_sbuf struct sbuf known = {0};
    for (size_t i = 0; i < type->n; i++)
        sbuf_addf(&known, "%s%.*s", i ? ", " : "", STR_ARG(type->fields[i].name));
    int r = err_set(err, ERR_BAD_REQUEST, "unknown field \"%.*s\"; there are: %s", STR_ARG(name),
                    known.p);
    struct json_pos pos;
    if (json_locate(&rd->doc, key, &pos))
        err_at(err, pos.line, pos.column);
    return r;
}

static int cdi_parse_object(struct reader *rd, const yyjson_val *v, const struct cdi_type *type,
                            char *to, struct err *err)
{
    if (!json_is_object(v))
        return cdi_parse_wrong_type(rd, v, "an object", err);
    json_obj_foreach(v, key, value) {
        struct str name = json_str(key);
        size_t i = 0;
        while (i < type->n && !str_eq(type->fields[i].name, name))
            i++;
        if (i == type->n)
            return unknown_field(rd, key, type, err);
        int r = cdi_parse_field(rd, value, &type->fields[i], to + type->fields[i].offset, err);
        if (r != 0) {
            err_path_field(err, name.p, name.n);
            return r;
        }
    }
    return 0;
}

// Reads the first document of text.
static int read_document(struct reader *rd, struct err *err)
{
    struct json_options options = {.max_bytes = CDI_SPEC_BYTES_MAX};
    cleanup_docs_reader struct docs_reader docs = {0};
    docs_reader_init(&docs, rd->text, &options);
    int r = docs_next(&docs, &rd->doc, err);
    if (r == 0)
        return err_set(err, ERR_BAD_REQUEST, "the file is empty; a CDI spec is an object");
    return r < 0 ? r : 0;
}

static int cdi_parse_run(struct reader *rd, struct cdi_spec **ret, struct err *err)
{
    int r = read_document(rd, err);
    if (r != 0)
        return r;
    struct cdi_spec *spec = arena_one(rd->arena, struct cdi_spec);
    r = cdi_parse_object(rd, rd->doc.root, &cdi_type_spec, (char *)spec, err);
    if (r == 0)
        *ret = spec;
    return r;
}

int cdi_spec_parse(struct str text, struct arena *arena, struct cdi_spec **ret, struct err *err)
{
    struct reader rd = {.arena = arena, .text = text};
    int r = cdi_parse_run(&rd, ret, err);
    json_doc_done(&rd.doc);
    return r;
}

int cdi_spec_load(struct str text, struct arena *arena, struct cdi_spec **ret,
                  struct cdi_problems *out)
{
    struct reader rd = {.arena = arena, .text = text};
    struct cdi_spec *spec = NULL;
    struct err err = {0};
    int r = cdi_parse_run(&rd, &spec, &err);
    if (r != 0) {
        vec_push(out, err);
    } else {
        size_t first = out->n;
        if (cdi_spec_validate(spec, out) > 0)
            r = -ERR_INVALID;
        for (size_t i = first; i < out->n; i++)
            json_locate_err(&rd.doc, &out->p[i]);
    }
    json_doc_done(&rd.doc);
    if (r == 0)
        *ret = spec;
    return r;
}

int cdi_spec_read_file(const char *path, struct sbuf *out, struct err *err)
{
    // Opening a pipe must not block.
    cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return err_set(err, errno, "cannot open: %s", strerrordesc_np(errno));
    struct stat st;
    if (fstat(fd, &st) != 0)
        return err_set(err, errno, "cannot stat: %s", strerrordesc_np(errno));
    if (!S_ISREG(st.st_mode))
        return err_set(err, ERR_INVALID, "a CDI spec must be a regular file");
    int r = file_read_fd(fd, CDI_SPEC_BYTES_MAX, out);
    if (r == -ERR_TOO_LARGE)
        return err_set(err, ERR_TOO_LARGE, "a CDI spec may have %zu bytes at most",
                       CDI_SPEC_BYTES_MAX);
    return r < 0 ? err_set(err, -r, "cannot read: %s", strerrordesc_np(-r)) : 0;
}

// SPDX-License-Identifier: Apache-2.0
//
// dray convert -f FILE [--to VERSION] [-o json|yaml|protobuf]: objects in another version or
// another format. Lists are taken apart. Objects of other groups than the version's, and of kinds
// that are not in the schema, come out as they went in.
#include <stdio.h>
#include <string.h>

#include "base/vec.h"
#include "cmd/input.h"
#include "cmd/verb.h"
#include "codec/yaml.h"

#include "base/banned.h"

enum format { FORMAT_JSON, FORMAT_YAML, FORMAT_PROTOBUF };

// What comes out: an object, or the JSON text of something whose kind is not known.
struct piece {
    struct api_object object; // kind NULL when not known
    struct str text;
};

struct convert {
    const char *to; // NULL: keep versions
    enum format format;
    struct VEC(struct piece) pieces;
    struct arena arena;
    bool failed;
};

static void convert_done(struct convert *c)
{
    vec_done(&c->pieces);
    arena_done(&c->arena);
}

// target_kind is the kind that o becomes; o's own when the version is not meant for it. NULL, with
// an error, when the version has no such kind.
static const struct api_kind *target_kind(const struct convert *c, const struct api_object *o,
                                          struct err *err)
{
    struct str to = str_z(c->to), group, version;
    if (!c->to)
        return o->kind;
    if (!str_cut(to, '/', &group, &version)) {
        // A bare version is one of resource.k8s.io, unless it is core's v1 object already.
        group = STR("resource.k8s.io");
        version = to;
    }
    if (!str_eq(group, o->kind->group))
        return o->kind;
    for (size_t i = 0; i < api_kinds_len; i++) {
        const struct api_kind *k = &api_kinds[i];
        if (str_eq(k->kind, o->kind->kind) && str_eq(k->group, group) &&
            str_eq(k->version, version))
            return k;
    }
    (void)err_set(err, ERR_NOT_FOUND, "%.*s has no %.*s", STR_ARG(to), STR_ARG(o->kind->kind));
    return NULL;
}

static int add_object(struct convert *c, const struct api_object *o, struct err *err)
{
    const struct api_kind *to = target_kind(c, o, err);
    if (!to)
        return -ERR_NOT_FOUND;
    struct piece piece = {.object = *o};
    if (to != o->kind) {
        int r = api_convert(o, to, &c->arena, &piece.object, err);
        if (r < 0)
            return r;
    }
    vec_push(&c->pieces, piece);
    return 0;
}

static void warn_dropped(const struct input *in, const struct json_strict *strict)
{
    for (size_t i = 0; i < strict->reports.n; i++)
        (void)fprintf(stderr, "dray convert: %s: warning: %.*s\n", in->name,
                      STR_ARG(strict->reports.p[i]));
}

static int convert_add_value(struct convert *c, const struct input *in, const struct json_doc *doc,
                             const yyjson_val *v, struct err *err)
{
    struct api_object o;
    cleanup_json_strict struct json_strict strict = {0};
    int r = api_decode(doc, v, &c->arena, &strict, &o, err);
    if (r == -ERR_NOT_FOUND) {
        cleanup_sbuf struct sbuf text = {0};
        struct json_writer w = {.out = &text};
        json_write_value(&w, v);
        vec_push(&c->pieces, (struct piece){.text = arena_str(&c->arena, sbuf_str(&text))});
        return 0;
    }
    if (r < 0)
        return r;
    warn_dropped(in, &strict);
    return add_object(c, &o, err);
}

static bool convert_is_list(const yyjson_val *v)
{
    const yyjson_val *kind = json_get(v, STR("kind")), *items = json_get(v, STR("items"));
    return kind && items && json_is_string(kind) && json_is_array(items) &&
           str_eqz(json_str(kind), "List");
}

static int convert_add_document(struct convert *c, const struct input *in,
                                const struct json_doc *doc, struct err *err)
{
    if (!convert_is_list(doc->root))
        return convert_add_value(c, in, doc, doc->root, err);
    size_t n = 0;
    json_arr_foreach(json_get(doc->root, STR("items")), item) {
        int r = convert_add_value(c, in, doc, item, err);
        if (r < 0) {
            err_path_index(err, n);
            err_path_field(err, "items", 5);
            return r;
        }
        n++;
    }
    return 0;
}

static int convert_add_proto(struct convert *c, struct str body, struct err *err)
{
    struct api_object o;
    int r = api_envelope_read(body, &c->arena, &o, err);
    if (r < 0)
        return r;
    if (o.kind->type != &api_list_type)
        return add_object(c, &o, err);
    const struct api_list *list = o.value;
    for (size_t i = 0; i < list->items.n; i++) {
        struct api_object item;
        r = api_envelope_read(list->items.p[i], &c->arena, &item, err);
        if (r == 0)
            r = add_object(c, &item, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static void convert_add_file(struct convert *c, const char *path)
{
    struct err err = {0};
    cleanup_input struct input in = {0};
    int r = input_open(&in, path, &err);
    if (r == 0 && input_is_proto(&in)) {
        r = convert_add_proto(c, sbuf_str(&in.bytes), &err);
    } else if (r == 0) {
        struct json_doc doc = {0};
        while ((r = input_next(&in, &doc, &err)) > 0) {
            r = convert_add_document(c, &in, &doc, &err);
            if (r < 0) {
                json_locate_err(&doc, &err);
                input_error(&in, "convert", &err);
                c->failed = true;
            }
            json_doc_done(&doc);
        }
    }
    if (r < 0) {
        input_error(&in, "convert", &err);
        c->failed = true;
    }
}

static int piece_json(const struct piece *piece, unsigned indent, struct sbuf *out, struct err *err)
{
    struct json_writer w = {.out = out, .indent = indent};
    if (piece->object.kind)
        return api_json_write(piece->object.kind->type, piece->object.value, &w, err);
    cleanup_json_doc struct json_doc doc = {0};
    struct json_options options = {DRAY_FILE_BYTES_MAX, JSON_DUPLICATES_LAST};
    int r = json_parse(piece->text, &options, &doc, err);
    if (r == 0)
        json_write_value(&w, doc.root);
    return r;
}

static int put_yaml(const struct piece *piece, bool first, struct sbuf *out, struct err *err)
{
    cleanup_sbuf struct sbuf text = {0};
    cleanup_json_doc struct json_doc doc = {0};
    struct json_options options = {DRAY_FILE_BYTES_MAX, JSON_DUPLICATES_LAST};
    int r = piece_json(piece, 0, &text, err);
    if (r == 0)
        r = json_parse(sbuf_str(&text), &options, &doc, err);
    if (r < 0)
        return r;
    if (!first)
        sbuf_addz(out, "---\n");
    yaml_write(doc.root, false, out);
    return 0;
}

// put_protobuf writes one object in its envelope, or several in one of a List.
static int put_protobuf(const struct convert *c, struct sbuf *out, struct err *err)
{
    struct arena arena = {0};
    struct api_list list = {.kind = STR("List"), .api_version = STR("v1")};
    list.items.p = arena_array(&arena, struct str, c->pieces.n);
    int r = 0;
    for (size_t i = 0; i < c->pieces.n && r == 0; i++) {
        const struct piece *piece = &c->pieces.p[i];
        if (!piece->object.kind || !api_kind_in_proto(piece->object.kind)) {
            r = err_set(err, ERR_INVALID, "object %zu is of a kind without a protobuf form", i + 1);
            break;
        }
        cleanup_sbuf struct sbuf body = {0};
        api_envelope_write(&piece->object, &body);
        list.items.p[list.items.n++] = arena_str(&arena, sbuf_str(&body));
    }
    if (r == 0 && list.items.n == 1) {
        sbuf_add(out, list.items.p[0]);
    } else if (r == 0) {
        struct api_object whole = {api_kind_find(STR("v1"), STR("List")), &list};
        api_envelope_write(&whole, out);
    }
    arena_done(&arena);
    return r;
}

static int convert_write_objects(const struct convert *c, struct sbuf *out, struct err *err)
{
    int r = 0;
    if (c->format == FORMAT_PROTOBUF)
        return put_protobuf(c, out, err);
    for (size_t i = 0; i < c->pieces.n && r == 0; i++) {
        if (c->format == FORMAT_YAML) {
            r = put_yaml(&c->pieces.p[i], i == 0, out, err);
        } else {
            r = piece_json(&c->pieces.p[i], 4, out, err);
            sbuf_addc(out, '\n');
        }
    }
    return r;
}

static struct {
    struct cli_texts files;
    const char *to, *output;
} args = {.output = "yaml"};

static int verb_convert(void);

static const struct cli_option convert_options[] = {
    {"--filename", "-f", "FILE…", "read objects in YAML, JSON or protobuf; - reads standard input",
     .many = &args.files, .greedy = true, .required = true},
    {"--to", NULL, "VERSION",
     "write this version of resource.k8s.io, such as v1beta1; other kinds keep theirs",
     .text = &args.to},
    {"--output", "-o", "FORMAT", "write json, yaml (default) or protobuf", .text = &args.output,
     .choices = "json yaml protobuf"},
};
static const struct cli_group convert_group = CLI_GROUP("Options", convert_options);

const struct cli_verb convert_verb = {
    .name = "convert",
    .summary = "convert objects to another API version or format",
    .chapter = CLI_OBJECTS,
    .synopsis = "convert -f FILE… [--to VERSION] [-o json|yaml|protobuf]",
    .text =
        "Converts the objects of files to another version of resource.k8s.io or another format.",
    .examples = "dray convert -f claim.yaml --to v1beta1\ndray convert -f claim.yaml -o protobuf > "
                "claim.pb",
    .groups = {&convert_group},
    .run = verb_convert,
};

static int verb_convert(void)
{
    cleanup_with(convert_done) struct convert c = {.to = args.to};
    c.format = strcmp(args.output, "json") == 0   ? FORMAT_JSON
               : strcmp(args.output, "yaml") == 0 ? FORMAT_YAML
                                                  : FORMAT_PROTOBUF;
    vec_foreach(&args.files, file) {
        convert_add_file(&c, *file);
    }
    struct err err = {0};
    cleanup_sbuf struct sbuf out = {0};
    if (convert_write_objects(&c, &out, &err) < 0) {
        (void)fprintf(stderr, "dray convert: %s%s%s\n", err.path, err.path[0] ? ": " : "", err.msg);
        return VERB_NO;
    }
    if (out.n)
        (void)fwrite(out.p, 1, out.n, stdout);
    return c.failed ? VERB_NO : VERB_OK;
}

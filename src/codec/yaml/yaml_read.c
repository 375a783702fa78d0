// SPDX-License-Identifier: Apache-2.0
//
// libyaml's events made into a tree of nodes, one document at a time, with its own bounds on depth.
// libyaml itself keeps at most a line's worth of tokens ahead, so a bound on events bounds it too.
#include <assert.h>
#include <stdlib.h>
#include <yaml.h>

#include "base/map.h"
#include "codec/yaml.h"
#include "codec/yaml/yaml_int.h"

#include "base/banned.h"

struct anchors MAP(struct yaml_node *);

struct yaml_reader {
    yaml_parser_t parser;
    struct str text;
    struct json_pos start;
    struct json_options options;
    size_t documents;
    bool ended;
    // Of the document being read:
    struct arena arena;
    struct anchors anchors;
    struct yaml_node *open[DRAY_DOC_DEPTH_MAX]; // containers that are not closed
    size_t depth;
    struct yaml_node *root;
};

struct yaml_reader *yaml_reader_new(struct str text, struct json_pos start,
                                    const struct json_options *options)
{
    struct yaml_reader *y = xcalloc(1, sizeof(*y));
    y->text = text;
    y->start = start;
    if (options)
        y->options = *options;
    if (!yaml_parser_initialize(&y->parser))
        abort(); // out of memory
    yaml_parser_set_input_string(&y->parser, (const unsigned char *)(text.n ? text.p : "\n"),
                                 text.n ? text.n : 1);
    return y;
}

static void forget_document(struct yaml_reader *y)
{
    arena_reset(&y->arena);
    map_done(&y->anchors);
    y->depth = 0;
    y->root = NULL;
}

void yaml_reader_free(struct yaml_reader *y)
{
    if (!y)
        return;
    forget_document(y);
    arena_done(&y->arena);
    yaml_parser_delete(&y->parser);
    free(y);
}

static struct json_pos yaml_read_get_position(const struct yaml_reader *y, yaml_mark_t mark)
{
    uint32_t column = (uint32_t)mark.column + (mark.line == 0 ? y->start.column : 1);
    return (struct json_pos){(uint32_t)mark.line + y->start.line, column};
}

static void yaml_read_set_position(struct err *err, struct json_pos at)
{
    err_at(err, at.line, at.column);
}

// Whether a line (from 0) of the text is indented with a tab, which YAML forbids and few see.
static bool has_tab_indent(struct str text, size_t line)
{
    size_t at = 0;
    while (line--) {
        ptrdiff_t n = str_find_char(str_from(text, at), '\n');
        if (n < 0)
            return false;
        at += (size_t)n + 1;
    }
    while (at < text.n && text.p[at] == ' ')
        at++;
    return at < text.n && text.p[at] == '\t';
}

static int parser_error(struct yaml_reader *y, struct err *err)
{
    const yaml_parser_t *p = &y->parser;
    const char *problem = p->problem ? p->problem : "not understood";
    if (p->error == YAML_MEMORY_ERROR)
        abort();
    if (p->error == YAML_READER_ERROR) {
        // Bytes that are no text: the offset is all there is.
        int r = err_set(err, ERR_BAD_REQUEST, "invalid YAML: %s (offset %zu)", problem,
                        p->problem_offset);
        size_t offset = p->problem_offset < y->text.n ? p->problem_offset : y->text.n;
        struct json_pos at = json_pos_of(y->text, offset);
        err_at(err, at.line + y->start.line - 1,
               at.line == 1 ? at.column + y->start.column - 1 : at.column);
        return r;
    }
    bool tab = has_tab_indent(y->text, p->problem_mark.line);
    int r =
        err_set(err, ERR_BAD_REQUEST, "invalid YAML: %s%s%s%s", p->context ? p->context : "",
                p->context ? ": " : "", problem, tab ? "; indent with spaces, not with tabs" : "");
    yaml_read_set_position(err, yaml_read_get_position(y, p->problem_mark));
    return r;
}

// --- Composing -----------------------------------------------------------------------------------

static struct yaml_node *new_node(struct yaml_reader *y, enum yaml_node_kind kind,
                                  const yaml_event_t *event)
{
    struct yaml_node *n = arena_one(&y->arena, struct yaml_node);
    n->kind = (uint8_t)kind;
    n->at = yaml_read_get_position(y, event->start_mark);
    if (!y->depth) {
        y->root = n;
        return n;
    }
    struct yaml_node *parent = y->open[y->depth - 1];
    if (parent->last)
        parent->last->next = n;
    else
        parent->first = n;
    parent->last = n;
    return n;
}

static const char *copy_tag(struct yaml_reader *y, const yaml_char_t *tag)
{
    return tag ? arena_str(&y->arena, str_z((const char *)tag)).p : NULL;
}

// A later anchor of the same name replaces an earlier one for what follows.
static void set_anchor(struct yaml_reader *y, const yaml_char_t *name, struct yaml_node *n)
{
    if (!name)
        return;
    struct str key = str_z((const char *)name);
    if (!map_has(&y->anchors, key))
        key = arena_str(&y->arena, key);
    *map_put(&y->anchors, key) = n;
}

static int yaml_read_add_container(struct yaml_reader *y, const yaml_event_t *event,
                                   struct err *err)
{
    if (y->depth == DRAY_DOC_DEPTH_MAX) {
        int r = err_set(err, ERR_BAD_REQUEST, "nested deeper than %d levels", DRAY_DOC_DEPTH_MAX);
        yaml_read_set_position(err, yaml_read_get_position(y, event->start_mark));
        return r;
    }
    bool sequence = event->type == YAML_SEQUENCE_START_EVENT;
    struct yaml_node *n = new_node(y, sequence ? YAML_NODE_SEQUENCE : YAML_NODE_MAPPING, event);
    set_anchor(y, sequence ? event->data.sequence_start.anchor : event->data.mapping_start.anchor,
               n);
    y->open[y->depth++] = n;
    return 0;
}

static void add_scalar(struct yaml_reader *y, const yaml_event_t *event)
{
    struct yaml_node *n = new_node(y, YAML_NODE_SCALAR, event);
    n->implicit = event->data.scalar.plain_implicit != 0;
    n->tag = copy_tag(y, event->data.scalar.tag);
    n->value = arena_str(&y->arena, str_make((const char *)event->data.scalar.value,
                                             event->data.scalar.length));
    set_anchor(y, event->data.scalar.anchor, n);
}

static int add_alias(struct yaml_reader *y, const yaml_event_t *event, struct err *err)
{
    struct str name = str_z((const char *)event->data.alias.anchor);
    struct yaml_node **target = map_get(&y->anchors, name);
    if (!target) {
        int r = err_set(err, ERR_BAD_REQUEST, "unknown anchor '%.*s' referenced",
                        STR_ARG(str_upto(name, 100)));
        yaml_read_set_position(err, yaml_read_get_position(y, event->start_mark));
        return r;
    }
    struct yaml_node *n = new_node(y, YAML_NODE_ALIAS, event);
    n->value = arena_str(&y->arena, name);
    n->target = *target;
    return 0;
}

// Takes one event in. Returns 1 when it ends a document, 2 when it ends the stream, else 0.
static int take_event(struct yaml_reader *y, const yaml_event_t *event, struct err *err)
{
    switch (event->type) {
    case YAML_STREAM_END_EVENT:
        return 2;
    case YAML_DOCUMENT_END_EVENT:
        return 1;
    case YAML_ALIAS_EVENT:
        return add_alias(y, event, err);
    case YAML_SCALAR_EVENT:
        add_scalar(y, event);
        return 0;
    case YAML_SEQUENCE_START_EVENT:
    case YAML_MAPPING_START_EVENT:
        return yaml_read_add_container(y, event, err);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        y->depth--;
        return 0;
    case YAML_NO_EVENT:
    case YAML_STREAM_START_EVENT:
    case YAML_DOCUMENT_START_EVENT:
        return 0;
    }
    return 0;
}

// Composes the next document. Returns 1, 0 at the end of the stream, or an error.
static int yaml_read_compose_document(struct yaml_reader *y, struct err *err)
{
    forget_document(y);
    for (;;) {
        yaml_event_t event;
        if (!yaml_parser_parse(&y->parser, &event))
            return parser_error(y, err);
        int r = take_event(y, &event, err);
        yaml_event_delete(&event);
        if (r != 0)
            return r == 2 ? 0 : r;
    }
}

// A document without content: libyaml makes an empty plain scalar of it.
static bool yaml_read_is_empty(const struct yaml_node *n)
{
    return n->kind == YAML_NODE_SCALAR && n->implicit && !n->tag && n->value.n == 0;
}

// Counts %TAG at the start of lines, whichever of YAML's line breaks is before it.
static size_t count_tag_directives(struct str text)
{
    size_t count = 0;
    ptrdiff_t found;
    for (size_t at = 0; (found = str_find(str_from(text, at), STR("%TAG"))) >= 0;) {
        at += (size_t)found;
        unsigned char before = at ? (unsigned char)text.p[at - 1] : '\n';
        count += before < 0x20 || before >= 0x80;
        at += 4;
    }
    return count;
}

// What is known about the text before a byte of it is parsed.
static int yaml_read_check_text(const struct yaml_reader *y, struct err *err)
{
    size_t max = y->options.max_bytes ? y->options.max_bytes : DRAY_REQUEST_BYTES_MAX;
    if (y->text.n > max)
        return err_set(err, ERR_TOO_LARGE, "the YAML has %zu bytes, more than the %zu allowed",
                       y->text.n, max);
    int r = 0;
    if (str_starts(y->text, STR("\xFE\xFF")) || str_starts(y->text, STR("\xFF\xFE")))
        r = err_set(err, ERR_BAD_REQUEST, "invalid YAML: the text is UTF-16; save it as UTF-8");
    else if (count_tag_directives(y->text) > DRAY_YAML_TAG_DIRECTIVES_MAX)
        r = err_set(err, ERR_BAD_REQUEST, "invalid YAML: more than %d %%TAG directives",
                    DRAY_YAML_TAG_DIRECTIVES_MAX);
    if (r < 0)
        yaml_read_set_position(err, y->start);
    return r;
}

static int yaml_read_check_bounds(const struct yaml_reader *y, struct err *err)
{
    if (y->documents == 0)
        return yaml_read_check_text(y, err);
    if (y->documents > DRAY_YAML_DOCUMENTS_MAX)
        return err_set(err, ERR_TOO_LARGE, "more than %d YAML documents in one stream",
                       DRAY_YAML_DOCUMENTS_MAX);
    return 0;
}

// Reads one document, an empty one included.
static int next_document(struct yaml_reader *y, struct json_doc *ret, struct err *err)
{
    int r = yaml_read_check_bounds(y, err);
    if (r == 0)
        r = yaml_read_compose_document(y, err);
    if (r > 0) {
        y->documents++;
        r = yaml_decode(y->root, y->options.duplicates, ret, err);
        if (r == 0) {
            ret->start = y->root->at;
            return 1;
        }
    }
    y->ended = true;
    return r;
}

int yaml_reader_next(struct yaml_reader *y, struct json_doc *ret, struct err *err)
{
    while (!y->ended) {
        struct json_doc doc;
        int r = next_document(y, &doc, err);
        if (r <= 0)
            return r;
        if (!yaml_read_is_empty(y->root)) {
            *ret = doc;
            return 1;
        }
        json_doc_done(&doc);
    }
    return 0;
}

static int refuse_second(struct yaml_reader *y, struct err *err)
{
    struct json_doc extra;
    int r = yaml_reader_next(y, &extra, err);
    if (r <= 0)
        return r;
    r = err_set(err, ERR_BAD_REQUEST, "more than one YAML document");
    yaml_read_set_position(err, extra.start);
    json_doc_done(&extra);
    return r;
}

int yaml_parse(struct str text, const struct json_options *options, struct json_doc *ret,
               struct err *err)
{
    struct yaml_reader *y = yaml_reader_new(text, (struct json_pos){1, 1}, options);
    struct json_doc doc = {0};
    int r = yaml_reader_next(y, &doc, err);
    if (r == 0) {
        struct yaml_node none = {.kind = YAML_NODE_SCALAR, .implicit = true, .at = {1, 1}};
        r = yaml_decode(&none, JSON_DUPLICATES_REFUSE, &doc, err);
        doc.start = none.at;
    } else if (r > 0) {
        r = refuse_second(y, err);
    }
    yaml_reader_free(y);
    if (r < 0)
        json_doc_done(&doc);
    else
        *ret = doc;
    return r;
}

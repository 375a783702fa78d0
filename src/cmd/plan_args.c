// SPDX-License-Identifier: Apache-2.0
#include "cmd/plan_args.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/stat.h>

#include "cmd/device_verb.h"
#include "cmd/input.h"
#include "cmd/verb.h"

#include "base/banned.h"

#define FOLDERS_DEEP 32

// --- Files ---------------------------------------------------------------------------------------

static int fail(const struct plan_args *a, const char *file, const struct err *err)
{
    struct input named = {.name = file};
    input_error(&named, a->verb, err);
    return VERB_NO;
}

static int read_file(const struct plan_args *a, struct plan_world *w, const char *path)
{
    struct err err = {0};
    cleanup_input struct input in = {0};
    int r = input_open(&in, path, &err);
    if (r == 0 && input_is_proto(&in))
        r = plan_world_read_proto(w, str_z(in.name), sbuf_str(&in.bytes), &err);
    else if (r == 0)
        r = plan_world_read(w, str_z(in.name), sbuf_str(&in.bytes), &err);
    return r < 0 ? fail(a, in.name ? in.name : path, &err) : VERB_OK;
}

static bool is_manifest(const char *name)
{
    struct str s = str_z(name);
    return str_ends(s, STR(".yaml")) || str_ends(s, STR(".yml")) || str_ends(s, STR(".json"));
}

static bool is_folder(const char *path)
{
    struct stat st;
    return strcmp(path, "-") != 0 && stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static int read_path(const struct plan_args *a, struct plan_world *w, const char *path,
                     unsigned depth);

static int read_folder(const struct plan_args *a, struct plan_world *w, const char *path,
                       unsigned depth)
{
    struct dirent **entries = NULL;
    int n = scandir(path, &entries, NULL, alphasort);
    int r = VERB_OK;
    if (n < 0) {
        struct err err = {0};
        (void)err_set(&err, errno, "cannot read the directory: %s", strerrordesc_np(errno));
        return fail(a, path, &err);
    }
    for (int i = 0; i < n; i++) {
        cleanup_sbuf struct sbuf full = {0};
        const char *name = entries[i]->d_name;
        sbuf_addf(&full, "%s/%s", path, name);
        bool below = name[0] != '.' && depth < FOLDERS_DEEP && a->recursive && is_folder(full.p);
        if (r == VERB_OK && (below || (is_manifest(name) && !is_folder(full.p))))
            r = read_path(a, w, full.p, depth + 1);
        free(entries[i]);
    }
    free((void *)entries);
    return r;
}

// NOLINTNEXTLINE(misc-no-recursion): bounded by FOLDERS_DEEP
static int read_path(const struct plan_args *a, struct plan_world *w, const char *path,
                     unsigned depth)
{
    return is_folder(path) ? read_folder(a, w, path, depth) : read_file(a, w, path);
}

// --- A cluster -----------------------------------------------------------------------------------

// read_cluster adds everything that matters of a cluster.
static int read_cluster(const struct plan_args *a, struct plan_world *w)
{
    struct cluster c = {0};
    struct err err = {0};
    int r = common_open(&c, &err);
    if (r == 0)
        r = device_world(&c, w, false, &err);
    cluster_close(&c);
    return r < 0 ? common_fail(a->verb, &err) : VERB_OK;
}

// --- What if -------------------------------------------------------------------------------------

static const struct {
    const char *option;
    int (*change)(struct plan_world *w, struct str text, struct err *err);
} changes[] = {
    {"--drain", plan_drain},
    {"--taint", plan_taint},
    {"--without", plan_without},
    {"--add-node", plan_add_node},
};

static int change_world(const struct plan_args *a, struct plan_world *w)
{
    for (size_t i = 0; i + 1 < a->changes.n; i += 2)
        for (size_t k = 0; k < array_len(changes); k++) {
            struct err err = {0};
            if (strcmp(a->changes.p[i], changes[k].option) == 0 &&
                changes[k].change(w, str_z(a->changes.p[i + 1]), &err) < 0)
                return verb_usage_error(a->verb, err.msg);
        }
    return VERB_OK;
}

// --- The command line ----------------------------------------------------------------------------

static bool is_change(const char *word)
{
    for (size_t i = 0; i < array_len(changes); i++)
        if (strcmp(word, changes[i].option) == 0)
            return true;
    return false;
}

static const char *take_features(struct plan_args *a, struct str list)
{
    while (list.n) {
        struct str one;
        (void)str_cut(list, ',', &one, &list);
        if (!alloc_features_add(&a->options.features, str_trim(one)))
            return "--features has a name that is no feature or gate";
    }
    return NULL;
}

// An option that has a value. Returns what is wrong, or NULL; *ret_known says whether it is one.
static const char *take_valued(struct plan_args *a, const char *word, const char *value,
                               bool *ret_known)
{
    *ret_known = true;
    if (strcmp(word, "--policy") == 0)
        return alloc_policy_parse(str_z(value), &a->options.policy)
                   ? NULL
                   : "--policy is one of pack, spread, first";
    if (strcmp(word, "-o") == 0) {
        struct err err = {0};
        bool text = strcmp(value, "text") == 0;
        return view_output_parse(text ? "table" : value, VIEW_FORMATS_DATA | 1U << VIEW_TABLE,
                                 &a->arena, &a->format, &err) < 0
                   ? arena_str(&a->arena, str_z(err.msg)).p
                   : NULL;
    }
    if (strcmp(word, "--features") == 0)
        return take_features(a, str_z(value));
    if (strcmp(word, "--node") == 0) {
        a->options.node = str_z(value);
        return NULL;
    }
    if (strcmp(word, "--kubeconfig") == 0 || strcmp(word, "--context") == 0) {
        *(strcmp(word, "--context") == 0 ? &common.context : &common.kubeconfig) = value;
        return NULL;
    }
    if (is_change(word)) {
        vec_push(&a->changes, word);
        vec_push(&a->changes, value);
        return NULL;
    }
    *ret_known = false;
    return NULL;
}

static bool is_word(const char *word)
{
    return word[0] != '-' || word[1] == '\0';
}

static int bad_word(const struct plan_args *a, const char *word, const char *why)
{
    cleanup_sbuf struct sbuf b = {0};
    sbuf_addf(&b, "%s: %s", word, why);
    return verb_usage_error(a->verb, b.p);
}

// short_of gives an option with two names its short one.
static const char *short_of(const char *word)
{
    static const char *const names[][2] = {
        {"--filename", "-f"}, {"--output", "-o"}, {"--recursive", "-R"}};
    for (size_t i = 0; i < array_len(names); i++)
        if (strcmp(word, names[i][0]) == 0)
            return names[i][1];
    return word;
}

// The words of the command line, --name=value as two.
static void split_words(struct plan_args *a, int argc, char **argv, struct word_list *ret)
{
    for (int i = 1; i < argc; i++) {
        struct str name, value;
        if (strncmp(argv[i], "--", 2) == 0 && str_cut(str_z(argv[i]), '=', &name, &value)) {
            vec_push_arena(&a->arena, ret, short_of(arena_str(&a->arena, name).p));
            vec_push_arena(&a->arena, ret, value.p);
        } else {
            vec_push_arena(&a->arena, ret, short_of(argv[i]));
        }
    }
}

// Options without a value. False: it is none of them.
static bool take_flag(struct plan_args *a, const char *word)
{
    if (strcmp(word, "-R") == 0)
        a->recursive = true;
    else if (strcmp(word, "--all") == 0 && strcmp(a->verb, "plan") == 0)
        a->options.show_running = true;
    else if (strcmp(word, "--alone") == 0 && strcmp(a->verb, "why") == 0)
        a->options.alone = true;
    else
        return false;
    return true;
}

static int take_words(struct plan_args *a, const struct word_list *words)
{
    for (size_t i = 0; i < words->n; i++) {
        const char *word = words->p[i];
        bool known = false, last = i + 1 >= words->n;
        if (take_flag(a, word))
            continue;
        if (strcmp(word, "-f") == 0) {
            if (last)
                return bad_word(a, word, "wants files");
            do
                vec_push(&a->files, words->p[++i]);
            while (i + 1 < words->n && is_word(words->p[i + 1]));
        } else if (is_word(word) && strcmp(a->verb, "why") == 0 && !a->target) {
            a->target = word;
        } else if (last || is_word(word)) {
            return bad_word(a, word,
                            is_word(word) ? "files come behind -f"
                                          : "no such option, or its value is missing");
        } else {
            const char *wrong = take_valued(a, word, words->p[++i], &known);
            if (wrong || !known)
                return bad_word(a, word, wrong ? wrong : "no such option");
        }
    }
    return VERB_OK;
}

int plan_args_read(struct plan_args *a, int argc, char **argv)
{
    struct word_list words = {0};
    a->options.features = alloc_features_default();
    a->options.clock = clock_system();
    rng_seeded_init(&a->shares, rng_u64(rng_system()));
    a->options.rng = &a->shares.rng;
    split_words(a, argc, argv, &words);
    int r = take_words(a, &words);
    a->cluster = common.kubeconfig || common.context || a->files.n == 0;
    return r;
}

void plan_args_done(struct plan_args *a)
{
    vec_done(&a->files);
    vec_done(&a->changes);
    arena_done(&a->arena);
}

// --- The answer ----------------------------------------------------------------------------------

static int print(const struct plan_args *a, struct plan *p, struct err *err)
{
    cleanup_sbuf struct sbuf answer = {0}, out = {0}, notes = {0};
    cleanup_json_doc struct json_doc doc = {0};
    struct view_layout how = {0};
    const struct json_options o = {.max_bytes = SIZE_MAX};
    int r = common_layout(&how, err);
    if (r == 0 && !view_is_table(&a->format)) {
        plan_json(p, &answer);
        r = json_parse(sbuf_str(&answer), &o, &doc, err);
        if (r == 0 && a->format.format == VIEW_JSON)
            return common_print(sbuf_str(&answer), err);
        if (r == 0)
            r = view_output_write(&a->format, doc.root, &out, err);
        return r < 0 ? r : common_print(sbuf_str(&out), err);
    }
    plan_notes(p, &notes);
    if (notes.n)
        (void)fprintf(stderr, "%s", notes.p);
    plan_text(p, &answer);
    view_add_hanging(&out, sbuf_str(&answer), how.term.columns);
    return r < 0 ? r : common_print(sbuf_str(&out), err);
}

static int ask(struct plan_args *a, struct plan_world *w)
{
    struct plan *p = NULL;
    struct err err = {0};
    int r = a->target ? plan_why(w, str_z(a->target), &a->options, &p, &err)
                      : plan_make(w, &a->options, &p, &err);
    if (r < 0) {
        (void)common_fail(a->verb, &err);
        return r == -ERR_NOT_FOUND ? VERB_USAGE : VERB_NO;
    }
    r = print(a, p, &err);
    bool complete = plan_complete(p);
    plan_free(p);
    return r < 0 ? common_fail(a->verb, &err) : complete ? VERB_OK : VERB_NO;
}

int plan_args_answer(struct plan_args *a)
{
    struct plan_world *w = plan_world_new();
    int r = a->cluster ? read_cluster(a, w) : VERB_OK;
    for (size_t i = 0; r == VERB_OK && i < a->files.n; i++)
        r = read_path(a, w, a->files.p[i], 0);
    if (r == VERB_OK)
        r = change_world(a, w);
    if (r == VERB_OK)
        r = ask(a, w);
    plan_world_free(w);
    return r;
}

// SPDX-License-Identifier: Apache-2.0
//
// The allocator: problems of the directory given, if any (bench/ of tests/data/alloc.tar.xz), and
// hard problems of our own, each under first and pack. A line has "peer", the name of the
// same problem in upstream's run. Then: how long past its deadline does a search go on?
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "alloc_hard.h"
#include "bench.h"
#include "lab/alloc_question.h"

#include "base/banned.h"

#define DOCUMENT_MAX ((size_t)64 << 20)
#define CHUNK        ((size_t)64 << 10)
#define NAMES_MAX    256

static const struct {
    enum alloc_policy policy;
    const char *suffix;
} policies[] = {{ALLOC_FIRST, ""}, {ALLOC_PACK, " (pack)"}};

struct subject {
    struct question question;
    struct prepared prepared;
    struct alloc_solver *solver;
    struct alloc_answer answer;
};

static void solve(struct subject *s)
{
    const struct question *q = &s->question;
    for (size_t i = 0; i < q->nodes.n; i++) {
        alloc_solve(s->solver, s->prepared.views[i], q->claims.p, q->claims.n, &s->answer);
        if (s->answer.verdict != ALLOC_UNSATISFIABLE && s->answer.verdict != ALLOC_NODE_ERROR)
            break;
    }
}

// Best time of one solve, over at least a few and for at least a fifth of a second.
static double best_ns(struct subject *s)
{
    int64_t best = INT64_MAX;
    int64_t start = clock_mono_ns(clock_system());
    for (int i = 0; i < 5 || clock_mono_ns(clock_system()) - start < 200 * CLOCK_NS_PER_MS; i++) {
        int64_t from = clock_mono_ns(clock_system());
        solve(s);
        int64_t took = clock_mono_ns(clock_system()) - from;
        if (took < best)
            best = took;
    }
    return (double)best;
}

static void die(const char *name, const char *why)
{
    (void)fprintf(stderr, "%s: %s\n", name, why);
    exit(1); // NOLINT(concurrency-mt-unsafe): one thread
}

static void begin(struct subject *s, const char *name, struct str text)
{
    struct err err = {0};
    *s = (struct subject){0};
    if (alloc_question_read(&s->question, text, &err) < 0 ||
        alloc_question_prepare(&s->question, &s->prepared, &err) < 0)
        die(name, err.msg);
}

static void end(struct subject *s)
{
    alloc_question_end(&s->question, &s->prepared);
    alloc_question_done(&s->question);
}

static void measure(const char *name, struct str text, const enum alloc_verdict *want)
{
    struct subject s;
    begin(&s, name, text);
    for (size_t i = 0; i < array_len(policies); i++) {
        s.solver = alloc_solver_new(&(struct alloc_options){.policy = policies[i].policy});
        double ns = best_ns(&s);
        if (want && s.answer.verdict != *want)
            die(name, "wrong verdict");
        printf("{\"name\":\"%s%s\",\"value\":%.0f,\"unit\":\"ns\",\"peer\":\"%s\"}\n", name,
               policies[i].suffix, ns, name);
        (void)fflush(stdout);
        alloc_solver_free(s.solver);
    }
    end(&s);
}

// --- Problems of the folder ----------------------------------------------------------------------

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void measure_file(const char *folder, char *file)
{
    cleanup_sbuf struct sbuf path = {0};
    cleanup_sbuf struct sbuf text = {0};
    sbuf_addf(&path, "%s/%s", folder, file);
    FILE *f = fopen(path.p, "re");
    if (!f)
        die(file, "cannot be opened");
    for (size_t got = 1; got && text.n < DOCUMENT_MAX;) {
        got = fread(sbuf_space(&text, CHUNK), 1, CHUNK, f);
        sbuf_commit(&text, got);
    }
    (void)fclose(f);
    file[strlen(file) - strlen(".json")] = '\0';
    measure(file, sbuf_str(&text), NULL);
}

static void measure_folder(const char *folder)
{
    char *names[NAMES_MAX];
    size_t n = 0;
    DIR *d = opendir(folder);
    if (!d) {
        (void)fprintf(stderr, "skipped: no folder %s with upstream's problems\n", folder);
        return;
    }
    for (const struct dirent *e; (e = readdir(d)) != NULL && n < NAMES_MAX;) // NOLINT: one thread
        if (str_ends(str_z(e->d_name), STR(".json")))
            names[n++] = strdup(e->d_name);
    (void)closedir(d);
    qsort(names, n, sizeof(*names), by_name);
    for (size_t i = 0; i < n; i++) {
        measure_file(folder, names[i]);
        free(names[i]);
    }
}

// --- Deadline ------------------------------------------------------------------------------------

#define DEADLINE_NS (100 * CLOCK_NS_PER_US)

static bool expired(void *arg)
{
    return clock_mono_ns(clock_system()) >= *(const int64_t *)arg;
}

// The longest that any of the hard problems goes on after a deadline that comes at once.
static void measure_deadline(void)
{
    int64_t worst = 0;
    for (size_t i = 0; i < alloc_hard_count; i++) {
        cleanup_sbuf struct sbuf text = {0};
        struct subject s;
        int64_t least = INT64_MAX;
        int64_t at = 0;
        alloc_hard_write(&alloc_hard_problems[i], &text);
        begin(&s, alloc_hard_problems[i].name, sbuf_str(&text));
        s.solver = alloc_solver_new(
            &(struct alloc_options){.expired = expired, .expired_arg = &at, .policy = ALLOC_PACK});
        for (int k = 0; k < 50; k++) {
            at = clock_mono_ns(clock_system()) + DEADLINE_NS;
            solve(&s);
            int64_t late = clock_mono_ns(clock_system()) - at;
            if (late < least)
                least = late;
        }
        if (s.answer.verdict == ALLOC_TIMEOUT && least > worst)
            worst = least;
        alloc_solver_free(s.solver);
        end(&s);
    }
    bench_print("past the deadline, at worst", (double)worst, 0, NULL);
}

// Every hard problem of ours, under both policies.
static void count(void)
{
    for (size_t i = 0; i < alloc_hard_count; i++) {
        cleanup_sbuf struct sbuf text = {0};
        struct subject s;
        alloc_hard_write(&alloc_hard_problems[i], &text);
        begin(&s, alloc_hard_problems[i].name, sbuf_str(&text));
        for (size_t k = 0; k < array_len(policies); k++) {
            char name[128];
            (void)snprintf(name, sizeof(name), "%s%s", alloc_hard_problems[i].name,
                           policies[k].suffix);
            s.solver = alloc_solver_new(&(struct alloc_options){.policy = policies[k].policy});
            COUNT(name, 1, solve(&s));
            alloc_solver_free(s.solver);
        }
        end(&s);
    }
}

int main(int argc, char **argv)
{
    if (bench_counting(argc, argv)) {
        count();
        return 0;
    }
    if (argc > 1)
        measure_folder(argv[1]);
    for (size_t i = 0; i < alloc_hard_count; i++) {
        cleanup_sbuf struct sbuf text = {0};
        const struct alloc_hard *h = &alloc_hard_problems[i];
        enum alloc_verdict want = h->satisfiable ? ALLOC_ALLOCATED : ALLOC_UNSATISFIABLE;
        alloc_hard_write(h, &text);
        measure(h->name, sbuf_str(&text), &want);
    }
    measure_deadline();
    return 0;
}

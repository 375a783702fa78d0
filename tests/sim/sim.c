// SPDX-License-Identifier: Apache-2.0
//
// sim: runs a simulated control plane for many seeds and looks whether what must hold does.
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/hash.h"

#include "base/banned.h"

// Operations on pods and claims when everything else works.
enum { CALM_OPERATIONS = 15 };

// How long everything has to come to rest, and how often drivers answer meanwhile.
#define REST_NS (1200 * CLOCK_NS_PER_SEC)
enum { REST_ROUNDS = 40 };

struct outcome {
    bool broken;
    uint64_t trace;
    uint64_t steps;
};

struct options {
    uint64_t first, last;
    uint64_t operations;
    bool verbose;
    bool twice;
};

static void tell(struct sim *s)
{
    printf(
        "seed %llu is broken (replay: sim --seeds %llu-%llu --verbose). The last that was done:\n",
        (unsigned long long)s->seed, (unsigned long long)s->seed, (unsigned long long)s->seed);
    for (size_t i = s->logged > LOG_LINES ? s->logged - LOG_LINES : 0; i < s->logged; i++)
        puts(s->log[i % LOG_LINES]);
    printf("Broken:\n%.*s", STR_ARG(sbuf_str(&s->problem)));
}

// rest stops all faults, gets everything up again and lets it come to rest.
static void rest(struct sim *s)
{
    s->net.faulty = false;
    if (s->losses && s->store)
        sim_heal(s);
    sim_log(s, "faults end");
    if (!s->store)
        server_start(s);
    for (size_t i = 0; i < PARTS; i++)
        if (s->parts[i].used && !s->parts[i].client)
            part_start(s, &s->parts[i]);
    // What was on its way arrives. From then on what schedulers know is true, and all they do is
    // right.
    (void)sim_run(s, 40 * CLOCK_NS_PER_SEC, 100000);
    sim_note(s);
    s->calm = true;
    for (int i = 0; i < CALM_OPERATIONS; i++) {
        sim_operate_calmly(s);
        sim_drive(s, 2, 8);
        (void)sim_run(s, CLOCK_NS_PER_SEC, 20000);
        sim_check(s);
    }
    for (int i = 0; i < REST_ROUNDS && !s->broken; i++) {
        sim_drive(s, 1, 0);
        if (!sim_run(s, REST_NS / REST_ROUNDS, 50000))
            sim_break(s, "there is no end to the work");
    }
}

static struct outcome run(const struct options *o, uint64_t seed)
{
    struct sim s;
    sim_open(&s, seed, o->verbose);
    sim_furnish(&s);
    s.net.faulty = true;
    for (uint64_t i = 0; i < o->operations && !s.broken; i++) {
        sim_operate(&s);
        if (s.losses && sim_draw(&s, 3) == 0)
            sim_contend(&s);
        static const int64_t pauses[] = {1, 5, 30, 200, 1000, 4000};
        int64_t pause = pauses[sim_draw(&s, array_len(pauses))];
        (void)sim_run(&s, pause * CLOCK_NS_PER_MS, 20000);
        if (s.store)
            sim_check(&s);
    }
    if (!s.broken)
        rest(&s);
    if (!s.broken)
        sim_check(&s);
    if (!s.broken)
        sim_check_end(&s);
    if (s.broken)
        tell(&s);
    net_trace(&s.net, s.steps, s.store ? store_revision(s.store) : 0);
    struct outcome r = {s.broken, s.net.trace, s.steps};
    sim_close(&s);
    return r;
}

static int usage(void)
{
    (void)fprintf(stderr, "usage: sim --seeds A-B [--steps OPERATIONS] [--twice] [--verbose]\n");
    return 2;
}

static bool read_range(const char *text, struct options *o)
{
    struct str first;
    struct str last;
    if (!str_cut(str_z(text), '-', &first, &last))
        last = first;
    return str_to_u64(first, &o->first) == 0 && str_to_u64(last, &o->last) == 0 &&
           o->last >= o->first;
}

static bool read_options(int argc, char **argv, struct options *o)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--verbose") == 0)
            o->verbose = true;
        else if (strcmp(argv[i], "--twice") == 0)
            o->twice = true;
        else if (strcmp(argv[i], "--steps") == 0 && i + 1 < argc &&
                 str_to_u64(str_z(argv[i + 1]), &o->operations) == 0)
            i++;
        else if (strcmp(argv[i], "--seeds") != 0 || i + 1 >= argc || !read_range(argv[++i], o))
            return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    struct options o = {.first = 1, .last = 20, .operations = 120};
    if (!read_options(argc, argv, &o))
        return usage();
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    uint64_t broken = 0;
    uint64_t steps = 0;
    for (uint64_t seed = o.first; seed <= o.last; seed++) {
        struct outcome first = run(&o, seed);
        broken += first.broken;
        steps += first.steps;
        if (o.twice && run(&o, seed).trace != first.trace) {
            printf("seed %llu does not repeat itself\n", (unsigned long long)seed);
            broken++;
        }
    }
    printf("%llu seeds, %llu steps, %llu broken\n", (unsigned long long)o.last - o.first + 1,
           (unsigned long long)steps, (unsigned long long)broken);
    return broken ? 1 : 0;
}

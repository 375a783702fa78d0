// SPDX-License-Identifier: Apache-2.0
//
// fault_proxy CONTROL [SEED]: links between components that can be told to misbehave while they run. CONTROL is a
// Unix socket; a line is a command, its answer is a line that begins with "ok" or "no":
//
//   link NAME LISTEN TARGET   tcp:PORT (of this machine), tcp:ADDRESS:PORT or unix:PATH, each
//   unlink NAME
//   set NAME KEY=N…           delay and jitter (ms), rate (bytes a second), piece (bytes of a write), reset (of 1000 pieces),
//                             stall-up, stall-down, refuse, hang (0 or 1); what is not named stays
//   clear NAME                nothing is wrong any more
//   cut NAME                  resets every connection
//   stat NAME                 connections=N accepted=N refused=N resets=N up=BYTES down=BYTES
//
// NAME * means all links. The program ends with its standard input.
#include "proxy.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include <sys/socket.h>
#include <sys/un.h>

#include "base/clock.h"

#include "base/banned.h"

#define LINE_MAX_BYTES ((size_t)4096)
#define IDLE_NS        (10 * CLOCK_NS_PER_SEC)

struct links VEC(struct link *);

struct talk {
    int fd;
    struct sbuf in;
};

struct talks VEC(struct talk);

struct proxy {
    int control;
    struct links links;
    struct talks talks;
    struct rng_seeded rng;
};

// --- Commands --------------------------------------------------------------------------------------

static struct str word_of(struct str *line)
{
    struct str word, rest;
    *line = str_trim(*line);
    if (!str_cut(*line, ' ', &word, &rest)) {
        word = *line;
        rest = (struct str){0};
    }
    *line = rest;
    return word;
}

static void do_link(struct proxy *p, struct str name, struct str line, struct sbuf *answer)
{
    const char *why;
    struct str at = word_of(&line), target = word_of(&line);
    struct link *l = link_open(name, at, target, &why);
    if (l)
        vec_push(&p->links, l);
    sbuf_addf(answer, l ? "ok\n" : "no %s\n", l ? "" : why);
}

static bool set_all(struct link *l, struct str line)
{
    struct faults f = l->faults;
    for (struct str word; (word = word_of(&line)).n;)
        if (!link_set(&f, word))
            return false;
    l->faults = f;
    return true;
}

static void add_stat(const struct link *l, struct sbuf *to)
{
    sbuf_addf(to, " %.*s connections=%zu accepted=%llu refused=%llu resets=%llu up=%llu down=%llu",
              STR_ARG(l->name), l->conns.n, (unsigned long long)l->accepted,
              (unsigned long long)l->refused, (unsigned long long)l->resets,
              (unsigned long long)l->bytes[UP], (unsigned long long)l->bytes[DOWN]);
}

// do_one carries out a command on one link. Returns false if the command makes no sense; *ret_gone: the link is no more.
static bool do_one(struct link *l, struct str command, struct str line, struct sbuf *told,
                   bool *ret_gone)
{
    if (str_eqz(command, "set"))
        return set_all(l, line);
    if (str_eqz(command, "clear"))
        l->faults = (struct faults){0};
    else if (str_eqz(command, "cut"))
        link_cut(l);
    else if (str_eqz(command, "stat"))
        add_stat(l, told);
    else if (str_eqz(command, "unlink"))
        *ret_gone = true;
    else
        return false;
    return true;
}

static void carry_out(struct proxy *p, struct str line, struct sbuf *answer)
{
    struct str command = word_of(&line), name = word_of(&line);
    if (str_eqz(command, "link")) {
        do_link(p, name, line, answer);
        return;
    }
    cleanup_sbuf struct sbuf told = {0};
    size_t kept = 0, met = 0;
    bool fine = true;
    for (size_t i = 0; i < p->links.n; i++) {
        struct link *l = p->links.p[i];
        bool gone = false;
        if (str_eq(l->name, name) || str_eqz(name, "*")) {
            fine = do_one(l, command, line, &told, &gone) && fine;
            met++;
        }
        if (gone)
            link_close(l);
        else
            p->links.p[kept++] = l;
    }
    p->links.n = kept;
    if (met && fine)
        sbuf_addf(answer, "ok%.*s\n", STR_ARG(sbuf_str(&told)));
    else
        sbuf_addf(answer, "no %s\n", met ? "such command" : "such link");
}

// --- Whoever commands ------------------------------------------------------------------------------

// hear reads what there is. Returns false when the other side is done.
static bool hear(struct proxy *p, struct talk *t)
{
    char buf[LINE_MAX_BYTES];
    ssize_t n = read(t->fd, buf, sizeof(buf));
    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    if (n == 0 || t->in.n + (size_t)n > LINE_MAX_BYTES)
        return false;
    sbuf_add(&t->in, str_make(buf, (size_t)n));
    struct str line, rest = sbuf_str(&t->in);
    cleanup_sbuf struct sbuf answer = {0}, left = {0};
    while (str_cut(rest, '\n', &line, &rest))
        carry_out(p, line, &answer);
    sbuf_add(&left, rest);
    sbuf_clear(&t->in);
    sbuf_add(&t->in, sbuf_str(&left));
    return answer.n == 0 || send(t->fd, answer.p, answer.n, MSG_NOSIGNAL) == (ssize_t)answer.n;
}

static void turn_talks(struct proxy *p)
{
    for (int fd; (fd = accept4(p->control, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0;)
        vec_push(&p->talks, (struct talk){.fd = fd});
    size_t kept = 0;
    for (size_t i = 0; i < p->talks.n; i++) {
        struct talk t = p->talks.p[i];
        if (hear(p, &t)) {
            p->talks.p[kept++] = t;
            continue;
        }
        (void)close(t.fd);
        sbuf_done(&t.in);
    }
    p->talks.n = kept;
}

// --- The loop --------------------------------------------------------------------------------------

// wait_for returns false when the standard input has ended.
static bool wait_for(struct proxy *p, struct polls *polls)
{
    int64_t now = clock_mono_ns(clock_system()), until = now + IDLE_NS;
    vec_clear(polls);
    vec_push(polls, (struct pollfd){.fd = STDIN_FILENO, .events = POLLIN});
    vec_push(polls, (struct pollfd){.fd = p->control, .events = POLLIN});
    vec_foreach(&p->talks, t)
        vec_push(polls, (struct pollfd){.fd = t->fd, .events = POLLIN});
    vec_foreach(&p->links, l)
        link_poll(*l, polls, now, &until);
    const struct timespec wait = {.tv_sec = (until - now) / CLOCK_NS_PER_SEC,
                                  .tv_nsec = (until - now) % CLOCK_NS_PER_SEC};
    (void)ppoll(polls->p, polls->n, &wait, NULL);
    char c;
    return !polls->p[0].revents || read(STDIN_FILENO, &c, 1) > 0;
}

static int control_socket(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    size_t n = strlen(path);
    if (n >= sizeof(a.sun_path))
        return -1;
    memcpy(a.sun_path, path, n);
    (void)unlink(path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (const struct sockaddr *)&a, sizeof(a)) < 0 || listen(fd, 16) < 0)
        return -1;
    return fd;
}

int main(int argc, char **argv)
{
    uint64_t seed = 1;
    if (argc < 2 || argc > 3 || (argc == 3 && str_to_u64(str_z(argv[2]), &seed) < 0)) {
        (void)fputs("usage: fault_proxy CONTROL [SEED]\n", stderr);
        return 2;
    }
    (void)signal(SIGPIPE, SIG_IGN);
    struct proxy p = {.control = control_socket(argv[1])};
    if (p.control < 0) {
        (void)fprintf(stderr, "fault_proxy: cannot listen at %s: %m\n", argv[1]);
        return 1;
    }
    rng_seeded_init(&p.rng, seed);
    (void)puts("ready");
    (void)fflush(stdout);
    struct polls polls = {0};
    while (wait_for(&p, &polls)) {
        turn_talks(&p);
        int64_t now = clock_mono_ns(clock_system());
        vec_foreach(&p.links, l)
            link_turn(*l, &p.rng.rng, now);
    }
    vec_foreach(&p.links, l)
        link_close(*l);
    vec_foreach(&p.talks, t)
        sbuf_done(&t->in);
    vec_done(&p.links);
    vec_done(&p.talks);
    vec_done(&polls);
    return 0;
}

// SPDX-License-Identifier: Apache-2.0
//
// fault_wire NAME NET [SEED]: a network of its own, joined to this one by a wire that can be told to misbehave packet by packet. NET is
// the first address of four, 10.9.8.0: this side gets 10.9.8.1 on the interface NAME, the far side 10.9.8.2. Whoever is to live
// over there enters the network namespace of this process (/proc/PID/ns/net). Both ends are TUN devices; this program carries what is sent into
// one to the other, so that no module of the kernel is needed. Nothing is left of it when it ends, and it ends with its standard input.
//
// A line of the standard input is a command, its answer is a line that begins with "ok" or "no":
//
//   set KEY=N…   loss, duplicate, corrupt (of 1000 packets), delay and jitter (ms; packets overtake each other), cut-up (nothing leaves
//                the far side), cut-down (nothing reaches it) (0 or 1); what is not named stays
//   clear        nothing is wrong any more
//   stat         carried=N lost=N duplicated=N corrupted=N overtaken=N
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <linux/if_tun.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/rand.h"
#include "base/str.h"
#include "base/vec.h"

#include "base/banned.h"

#define PACKET_MAX  ((size_t)2048)
#define MTU         1500
#define WAITING_MAX ((size_t)20000) // packets; a router drops what is beyond
#define IDLE_NS     (10 * CLOCK_NS_PER_SEC)

enum { UP, DOWN, WAYS }; // from the far side to this one, and back

struct faults {
    int64_t loss, duplicate, corrupt; // of 1000 packets
    int64_t delay_ms, jitter_ms;
    int64_t cut[WAYS];
};

struct packet {
    int64_t due_ns;
    uint64_t number; // in the order of coming
    int way;
    size_t n;
    char *p;
};

struct packets VEC(struct packet);

struct wire {
    int end[WAYS]; // end[UP] is the far one: what is read there goes up
    struct faults faults;
    struct packets waiting;
    struct rng_seeded rng;
    struct sbuf said;
    uint64_t came, last[WAYS]; // last: the highest number that was carried
    uint64_t carried, lost, duplicated, corrupted, overtaken;
};

// --- The two ends ----------------------------------------------------------------------------------

static int set_address(int fd, struct ifreq *r, unsigned long what, struct in_addr address)
{
    const struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr = address};
    memcpy(&r->ifr_addr, &in, sizeof(in));
    return ioctl(fd, what, r);
}

static int bring_up(int fd, struct ifreq *r)
{
    if (ioctl(fd, SIOCGIFFLAGS, r) < 0)
        return -1;
    r->ifr_flags = (short)(r->ifr_flags | IFF_UP);
    return ioctl(fd, SIOCSIFFLAGS, r);
}

static struct ifreq request(const char *name)
{
    struct ifreq r = {0};
    memcpy(r.ifr_name, name, strlen(name)); // main has looked at its length
    return r;
}

static int make_end(const char *name, struct in_addr address)
{
    const struct in_addr mask = {htonl(0xfffffffc)};
    struct ifreq r = request(name);
    r.ifr_flags = IFF_TUN | IFF_NO_PI;
    int end = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool fine = end >= 0 && s >= 0 && ioctl(end, TUNSETIFF, &r) == 0 &&
                set_address(s, &r, SIOCSIFADDR, address) == 0 &&
                set_address(s, &r, SIOCSIFNETMASK, mask) == 0;
    r.ifr_mtu = MTU;
    fine = fine && ioctl(s, SIOCSIFMTU, &r) == 0 && bring_up(s, &r) == 0;
    if (s >= 0)
        (void)close(s);
    if (!fine && end >= 0)
        (void)close(end);
    return fine ? end : -1;
}

static int raise_loopback(void)
{
    struct ifreq r = request("lo");
    int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int result = s < 0 ? -1 : bring_up(s, &r);
    if (s >= 0)
        (void)close(s);
    return result;
}

// open_wire leaves this process in the far network.
static int open_wire(struct wire *w, const char *name, struct in_addr net)
{
    const struct in_addr near = {htonl(ntohl(net.s_addr) + 1)},
                         far = {htonl(ntohl(net.s_addr) + 2)};
    w->end[DOWN] = make_end(name, near);
    if (w->end[DOWN] < 0 || unshare(CLONE_NEWNET) < 0 || raise_loopback() < 0)
        return -1;
    w->end[UP] = make_end(name, far);
    return w->end[UP] < 0 ? -1 : 0;
}

// --- Packets ---------------------------------------------------------------------------------------

static bool happens(struct wire *w, int64_t of_1000)
{
    return of_1000 > 0 && rng_below(&w->rng.rng, 1000) < (uint64_t)of_1000;
}

static int64_t due(struct wire *w, int64_t now_ns)
{
    int64_t ms = w->faults.delay_ms;
    if (w->faults.jitter_ms)
        ms += (int64_t)rng_below(&w->rng.rng, (uint64_t)w->faults.jitter_ms + 1);
    return now_ns + ms * CLOCK_NS_PER_MS;
}

static void enqueue(struct wire *w, int way, const char *p, size_t n, int64_t now_ns)
{
    struct packet packet = {
        .due_ns = due(w, now_ns), .number = w->came, .way = way, .n = n, .p = xstrndup(p, n)};
    if (happens(w, w->faults.corrupt)) {
        w->corrupted++;
        packet.p[rng_below(&w->rng.rng, n)] ^= (char)(1 << rng_below(&w->rng.rng, 8));
    }
    vec_push(&w->waiting, packet);
}

static void take_in(struct wire *w, int way, int64_t now_ns)
{
    char p[PACKET_MAX];
    for (ssize_t n; (n = read(w->end[way], p, sizeof(p))) > 0;) {
        w->came++;
        if (w->faults.cut[way] || w->waiting.n >= WAITING_MAX || happens(w, w->faults.loss)) {
            w->lost++;
            continue;
        }
        enqueue(w, way, p, (size_t)n, now_ns);
        if (happens(w, w->faults.duplicate)) {
            w->duplicated++;
            enqueue(w, way, p, (size_t)n, now_ns);
        }
    }
}

// give_out carries what is due. Order among those is that of their times, as far as one turn sees it.
static void give_out(struct wire *w, int64_t now_ns)
{
    size_t kept = 0;
    for (size_t i = 0; i < w->waiting.n; i++) {
        struct packet p = w->waiting.p[i];
        if (p.due_ns > now_ns) {
            w->waiting.p[kept++] = p;
            continue;
        }
        // What the other end refuses is lost, as a full queue of a card would lose it.
        bool went = write(w->end[1 - p.way], p.p, p.n) == (ssize_t)p.n;
        w->carried += went;
        w->lost += !went;
        w->overtaken += p.number < w->last[p.way];
        if (p.number > w->last[p.way])
            w->last[p.way] = p.number;
        free(p.p);
    }
    w->waiting.n = kept;
}

// --- Commands --------------------------------------------------------------------------------------

static bool set_one(struct faults *f, struct str word)
{
    struct str key, text;
    int64_t value = 0;
    if (!str_cut(word, '=', &key, &text) || str_to_i64(text, &value) < 0 || value < 0)
        return false;
    const struct {
        const char *name;
        int64_t *at;
    } known[] = {
        {"loss", &f->loss},          {"duplicate", &f->duplicate}, {"corrupt", &f->corrupt},
        {"delay", &f->delay_ms},     {"jitter", &f->jitter_ms},    {"cut-up", &f->cut[UP]},
        {"cut-down", &f->cut[DOWN]},
    };
    for (size_t i = 0; i < array_len(known); i++) {
        if (str_eqz(key, known[i].name)) {
            *known[i].at = value;
            return true;
        }
    }
    return false;
}

static bool set_all(struct faults *f, struct str words)
{
    struct faults changed = *f;
    while (words.n) {
        struct str word;
        (void)str_cut(words, ' ', &word, &words);
        if (word.n && !set_one(&changed, word))
            return false;
    }
    *f = changed;
    return true;
}

static void carry_out(struct wire *w, struct str line)
{
    bool fine = true;
    cleanup_sbuf struct sbuf told = {0};
    if (str_starts(line, STR("set ")))
        fine = set_all(&w->faults, str_from(line, 4));
    else if (str_eqz(line, "clear"))
        w->faults = (struct faults){0};
    else if (str_eqz(line, "stat"))
        sbuf_addf(&told, " carried=%llu lost=%llu duplicated=%llu corrupted=%llu overtaken=%llu",
                  (unsigned long long)w->carried, (unsigned long long)w->lost,
                  (unsigned long long)w->duplicated, (unsigned long long)w->corrupted,
                  (unsigned long long)w->overtaken);
    else
        fine = false;
    (void)printf(fine ? "ok%.*s\n" : "no such command%.*s\n", STR_ARG(sbuf_str(&told)));
    (void)fflush(stdout);
}

// hear reads what there is. Returns false when the other side is done.
static bool hear(struct wire *w)
{
    char buf[1024];
    ssize_t n = read(STDIN_FILENO, buf, sizeof(buf));
    if (n <= 0)
        return n < 0 && errno == EINTR;
    sbuf_add(&w->said, str_make(buf, (size_t)n));
    struct str line, rest = sbuf_str(&w->said);
    while (str_cut(rest, '\n', &line, &rest))
        carry_out(w, line);
    cleanup_sbuf struct sbuf left = {0};
    sbuf_add(&left, rest);
    sbuf_clear(&w->said);
    sbuf_add(&w->said, sbuf_str(&left));
    return true;
}

static bool turn(struct wire *w)
{
    struct pollfd polls[] = {{.fd = STDIN_FILENO, .events = POLLIN},
                             {.fd = w->end[UP], .events = POLLIN},
                             {.fd = w->end[DOWN], .events = POLLIN}};
    int64_t now = clock_mono_ns(clock_system()), until = now + IDLE_NS;
    vec_foreach(&w->waiting, p)
        until = p->due_ns < until ? p->due_ns : until;
    int64_t wait = until > now ? until - now : 0;
    const struct timespec t = {.tv_sec = wait / CLOCK_NS_PER_SEC,
                               .tv_nsec = wait % CLOCK_NS_PER_SEC};
    (void)ppoll(polls, array_len(polls), &t, NULL);
    if (polls[0].revents && !hear(w))
        return false;
    now = clock_mono_ns(clock_system());
    for (int way = 0; way < WAYS; way++)
        take_in(w, way, now);
    give_out(w, now);
    return true;
}

int main(int argc, char **argv)
{
    uint64_t seed = 1;
    struct in_addr net = {0};
    if (argc < 3 || argc > 4 || strlen(argv[1]) >= IFNAMSIZ ||
        inet_pton(AF_INET, argv[2], &net) != 1 ||
        (argc == 4 && str_to_u64(str_z(argv[3]), &seed) < 0)) {
        (void)fputs("usage: fault_wire NAME NET [SEED]\n", stderr);
        return 2;
    }
    struct wire w = {.end = {-1, -1}};
    if (open_wire(&w, argv[1], net) < 0) {
        (void)fprintf(stderr, "fault_wire: cannot make %s: %m\n", argv[1]);
        return 1;
    }
    rng_seeded_init(&w.rng, seed);
    (void)puts("ready");
    (void)fflush(stdout);
    while (turn(&w))
        ;
    vec_foreach(&w.waiting, p)
        free(p->p);
    vec_done(&w.waiting);
    sbuf_done(&w.said);
    return 0;
}

/*
 * Load generator for the benchmark: one epoll thread, keep-alive connections to one port of 127.0.0.1.
 *
 *   load --port P --connections C --seconds S                 closed loop, unary: each connection asks again at once
 *   load ... --rate R                                         open loop: R requests/s, latency from the scheduled time
 *   load ... --chunks N --every US                            streams of N events, one each US microseconds (0: no pause)
 *
 * After S seconds nothing new is asked; what is under way is waited for (10 s at most). Prints one line of JSON.
 * An answer is good when its status is 200, its framing is exact, and the body is whole: a unary body is one JSON object
 * of the same length each time, a stream holds N events and [DONE]. Anything else is an error: counted, the first one
 * told in the JSON, and the exit code is 1. Latencies in microseconds.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define BATCH 256
#define MAX_HEAD 16384
#define GRACE_NS 10000000000ull
#define MAX_ERRORS 1000
/* `data: {"id":"chatcmpl-` comes before the number in every event of the mock frontend. */
#define STAMP_AT 22
#define STAMP_DIGITS 19

enum { SIZE, SIZE_LF, DATA, DATA_CR, DATA_LF, LAST_CR, LAST_LF };

typedef struct {
    int fd;                       /* -1: to be opened */
    bool busy, in_body, chunked, close_after;
    uint64_t asked_ns;            /* in an open loop: when it should have been asked */
    char head[MAX_HEAD + 1];
    size_t head_len;
    int64_t left;                 /* of the body by Content-Length, or of the chunk */
    int framing, size_digits;
    int64_t body_bytes;
    char first, last;
    long events, at;              /* at: bytes into the current event */
    uint64_t stamp;
    bool done_seen, line_empty;
} peer;

typedef struct {
    double *at;
    size_t count, cap;
} samples;

static struct {
    int port, connections;
    double seconds, rate;
    long chunks, every_us;
    const char *model;
} opt = {.connections = 32, .seconds = 3, .chunks = -1, .model = "mock-model"};

static peer *peers;
static peer **idle;
static int idle_count, poller;
static char *request;
static size_t request_len;
static samples latency, delay, first_chunk;
static long asked, good, errors, connects;
static int64_t events_seen, body_min = INT64_MAX, body_max = -1;
static char first_error[256];

static void die(const char *what) {
    fprintf(stderr, "load: %s: %s\n", what, strerror(errno));
    exit(2);
}

static void *need(void *memory) {
    if (!memory) die("memory");
    return memory;
}

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void sample(samples *s, uint64_t from_ns, uint64_t to_ns) {
    if (s->count == s->cap) {
        s->cap = s->cap ? 2 * s->cap : 65536;
        s->at = need(realloc(s->at, s->cap * sizeof *s->at));
    }
    s->at[s->count++] = to_ns > from_ns ? (double)(to_ns - from_ns) / 1000.0 : 0;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* The list must be sorted. */
static double percentile(const samples *s, double share) {
    if (!s->count) return 0;
    size_t rank = (size_t)(share * (double)s->count);
    return s->at[rank < s->count ? rank : s->count - 1];
}

/* ---- connections ---- */

static void drop(peer *p) {
    if (p->fd >= 0) close(p->fd);
    p->fd = -1;
}

static void fail(peer *p, const char *format, ...) {
    if (!errors++) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(first_error, sizeof first_error, format, arguments);
        va_end(arguments);
        for (char *c = first_error; *c; c++)
            if (*c < ' ' || *c == '"' || *c == '\\' || *c > '~') *c = '\'';
    }
    drop(p);
    p->busy = false;
}

static bool open_up(peer *p) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)opt.port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int one = 1;
    p->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (p->fd < 0) die("socket");
    if (connect(p->fd, (struct sockaddr *)&address, sizeof address)) return false;
    setsockopt(p->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = p};
    if (epoll_ctl(poller, EPOLL_CTL_ADD, p->fd, &e)) die("epoll_ctl");
    connects++;
    return true;
}

static void ask(peer *p, uint64_t scheduled_ns) {
    asked++;
    if (p->fd < 0 && !open_up(p)) {
        fail(p, "connect: %s", strerror(errno));
        return;
    }
    p->busy = true;
    p->in_body = p->chunked = p->close_after = p->done_seen = p->line_empty = false;
    p->asked_ns = scheduled_ns;
    p->head_len = 0;
    p->body_bytes = 0;
    p->events = p->at = 0;
    p->stamp = 0;
    p->framing = SIZE;
    p->left = 0;
    p->size_digits = 0;
    if (send(p->fd, request, request_len, MSG_NOSIGNAL) != (ssize_t)request_len) fail(p, "send: %s", strerror(errno));
}

/* ---- one answer ---- */

static void end_of_event(peer *p, uint64_t now) {
    if (p->stamp) {
        if (!p->events++) sample(&first_chunk, p->asked_ns, now);
        events_seen++;
        sample(&delay, p->stamp, now);
    } else {
        p->done_seen = true;  /* the one event without a number */
    }
    p->at = 0;
    p->stamp = 0;
}

static void see_stream(peer *p, const char *bytes, size_t len, uint64_t now) {
    for (const char *end = bytes + len; bytes < end;) {
        if (p->at < STAMP_AT + STAMP_DIGITS && *bytes != '\n') {
            if (p->at >= STAMP_AT && *bytes >= '0' && *bytes <= '9') p->stamp = p->stamp * 10 + (uint64_t)(*bytes - '0');
            p->at++;
            p->line_empty = false;
            bytes++;
            continue;
        }
        const char *line_end = memchr(bytes, '\n', (size_t)(end - bytes));
        if (!line_end) {
            p->line_empty = false;
            return;
        }
        if (line_end > bytes) p->line_empty = false;
        if (p->line_empty)
            end_of_event(p, now);
        p->line_empty = true;
        bytes = line_end + 1;
    }
}

static void see_body(peer *p, const char *bytes, size_t len, uint64_t now) {
    if (!len) return;
    if (!p->body_bytes) p->first = *bytes;
    p->last = bytes[len - 1];
    p->body_bytes += (int64_t)len;
    if (opt.chunks >= 0) see_stream(p, bytes, len, now);
}

/* Reads chunked framing: bytes used up to and with the end of the body (*over set), or -1 when it is wrong. */
static ssize_t see_chunked(peer *p, const char *bytes, size_t len, uint64_t now, bool *over) {
    const char *start = bytes;
    for (const char *end = bytes + len; bytes < end;) {
        char c = *bytes;
        switch (p->framing) {
        case SIZE: {
            int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
            bytes++;
            if (digit >= 0 && p->size_digits < 8) {
                p->left = p->left * 16 + digit;
                p->size_digits++;
            } else if (c == '\r' && p->size_digits) {
                p->framing = SIZE_LF;
            } else {
                return -1;
            }
            break;
        }
        case DATA: {
            size_t take = (size_t)(end - bytes) < (size_t)p->left ? (size_t)(end - bytes) : (size_t)p->left;
            see_body(p, bytes, take, now);
            bytes += take;
            p->left -= (int64_t)take;
            if (!p->left) p->framing = DATA_CR;
            break;
        }
        default:
            if (c != (p->framing == DATA_CR || p->framing == LAST_CR ? '\r' : '\n')) return -1;
            bytes++;
            if (p->framing == LAST_LF) {
                *over = true;
                return bytes - start;
            }
            p->framing = p->framing == SIZE_LF ? (p->left ? DATA : LAST_CR)
                         : p->framing == DATA_CR ? DATA_LF
                         : p->framing == DATA_LF ? SIZE
                                                 : LAST_LF;
            if (p->framing == SIZE) p->left = p->size_digits = 0;
        }
    }
    return (ssize_t)len;
}

static bool names(const char *line, const char *name) {
    return !strncasecmp(line, name, strlen(name));
}

/* Takes bytes of the head; returns how many were used, or -1 after fail(). */
static ssize_t see_head(peer *p, const char *bytes, size_t len) {
    size_t before = p->head_len, take = len < MAX_HEAD - before ? len : MAX_HEAD - before;
    memcpy(p->head + before, bytes, take);
    p->head_len += take;
    p->head[p->head_len] = 0;
    char *end = strstr(p->head, "\r\n\r\n");
    if (!end) {
        if (p->head_len < MAX_HEAD) return (ssize_t)take;
        fail(p, "a head of more than %d bytes", MAX_HEAD);
        return -1;
    }
    size_t used = (size_t)(end - p->head) + 4 - before;
    end[2] = 0;
    if (strncmp(p->head, "HTTP/1.1 200 ", 13)) {
        fail(p, "status line: %.40s", p->head);
        return -1;
    }
    p->left = -1;
    for (char *line = strchr(p->head, '\n'); line && *++line; line = strchr(line, '\n')) {
        if (names(line, "content-length:")) p->left = atoll(line + 15);
        if (names(line, "transfer-encoding: chunked")) p->chunked = true;
        if (names(line, "connection: close")) p->close_after = true;
    }
    if (p->chunked == (p->left >= 0)) {
        fail(p, "neither Content-Length nor chunked, or both");
        return -1;
    }
    if (p->chunked) p->left = 0;
    p->in_body = true;
    return (ssize_t)used;
}

static void finish(peer *p, uint64_t now) {
    if (opt.chunks >= 0 && (p->events != opt.chunks || !p->done_seen)) {
        fail(p, "a stream of %ld events%s", p->events, p->done_seen ? "" : " without [DONE]");
        return;
    }
    if (opt.chunks < 0) {
        if (p->first != '{' || p->last != '}') {
            fail(p, "a body that is no JSON object, %lld bytes", (long long)p->body_bytes);
            return;
        }
        if (p->body_bytes < body_min) body_min = p->body_bytes;
        if (p->body_bytes > body_max) body_max = p->body_bytes;
    }
    good++;
    sample(&latency, p->asked_ns, now);
    p->busy = false;
    if (p->close_after) drop(p);
}

static void see_answer(peer *p, const char *bytes, size_t len, uint64_t now) {
    while (len && !p->in_body) {
        ssize_t used = see_head(p, bytes, len);
        if (used < 0) return;
        bytes += used;
        len -= (size_t)used;
    }
    if (!p->in_body) return;
    bool over = false;
    if (p->chunked) {
        ssize_t used = see_chunked(p, bytes, len, now, &over);
        if (used < 0) {
            fail(p, "wrong chunk framing");
            return;
        }
        len -= (size_t)used;
    } else {
        size_t take = len < (size_t)p->left ? len : (size_t)p->left;
        see_body(p, bytes, take, now);
        p->left -= (int64_t)take;
        len -= take;
        over = !p->left;
    }
    if (len) fail(p, "%zu bytes after the end of the answer", len);
    else if (over) finish(p, now);
}

static void on_readable(peer *p) {
    static char buffer[262144];
    ssize_t got = recv(p->fd, buffer, sizeof buffer, MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN) return;
    if (got > 0 && p->busy) see_answer(p, buffer, (size_t)got, now_ns());
    else if (p->busy) fail(p, got ? strerror(errno) : "closed before the answer was whole, %lld bytes of it", (long long)p->body_bytes);
    else if (got > 0) fail(p, "bytes nobody asked for");
    else drop(p);  /* an idle connection may be closed */
}

/* ---- set-up, loop, report ---- */

static void make_request(void) {
    static const char words[] = "Explain in plain words how a request finds its way to a model in another region. ";
    char filler[1024], mark[64] = "", body[1400];
    if (opt.chunks >= 0) snprintf(mark, sizeof mark, "[chunks=%ld every=%ldus] ", opt.chunks, opt.every_us);
    size_t fill = 800 - strlen(mark);
    for (size_t i = 0; i < fill; i++) filler[i] = words[i % (sizeof words - 1)];
    filler[fill] = 0;
    int body_len = snprintf(body, sizeof body,
                            "{\"model\":\"%s\",\"messages\":[{\"role\":\"system\",\"content\":\"You answer briefly.\"},"
                            "{\"role\":\"user\",\"content\":\"%s%s\"}],\"temperature\":0.7,\"max_tokens\":256,\"stream\":%s}",
                            opt.model, mark, filler, opt.chunks >= 0 ? "true" : "false");
    request = need(malloc(2048));
    request_len = (size_t)snprintf(request, 2048,
                                   "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nUser-Agent: bench-load/1\r\n"
                                   "Accept: */*\r\nAuthorization: Bearer none\r\nContent-Type: application/json\r\n"
                                   "Content-Length: %d\r\n\r\n%s",
                                   opt.port, body_len, body);
}

static void read_options(int argc, char **argv) {
    static const struct option known[] = {{"port", 1, 0, 'p'},   {"connections", 1, 0, 'c'}, {"seconds", 1, 0, 's'},
                                          {"rate", 1, 0, 'r'},   {"chunks", 1, 0, 'n'},      {"every", 1, 0, 'e'},
                                          {"model", 1, 0, 'm'}, {0, 0, 0, 0}};
    for (int o; (o = getopt_long(argc, argv, "", known, NULL)) >= 0;) {
        if (o == 'p') opt.port = atoi(optarg);
        else if (o == 'c') opt.connections = atoi(optarg);
        else if (o == 's') opt.seconds = atof(optarg);
        else if (o == 'r') opt.rate = atof(optarg);
        else if (o == 'n') opt.chunks = atol(optarg);
        else if (o == 'e') opt.every_us = atol(optarg);
        else if (o == 'm') opt.model = optarg;
        else exit(2);
    }
    if (opt.port < 1 || opt.connections < 1 || opt.seconds <= 0 || opt.rate < 0 || strlen(opt.model) > 100) {
        fputs("load: --port P --connections C --seconds S [--rate R] [--chunks N --every US] [--model M]\n", stderr);
        exit(2);
    }
}

static void report(double seconds) {
    qsort(latency.at, latency.count, sizeof(double), ascending);
    qsort(delay.at, delay.count, sizeof(double), ascending);
    qsort(first_chunk.at, first_chunk.count, sizeof(double), ascending);
    printf("{\"asked\":%ld,\"good\":%ld,\"errors\":%ld,\"first_error\":\"%s\",\"connects\":%ld,\"seconds\":%.4f,"
           "\"requests_per_second\":%.1f,\"latency_p50\":%.1f,\"latency_p90\":%.1f,\"latency_p99\":%.1f,"
           "\"events\":%lld,\"events_per_second\":%.1f,\"delay_p50\":%.1f,\"delay_p99\":%.1f,"
           "\"first_chunk_p50\":%.1f,\"first_chunk_p99\":%.1f,\"body_min\":%lld,\"body_max\":%lld}\n",
           asked, good, errors, first_error, connects, seconds, (double)good / seconds, percentile(&latency, .5),
           percentile(&latency, .9), percentile(&latency, .99), (long long)events_seen, (double)events_seen / seconds,
           percentile(&delay, .5), percentile(&delay, .99), percentile(&first_chunk, .5), percentile(&first_chunk, .99),
           (long long)(body_max < 0 ? 0 : body_min), (long long)(body_max < 0 ? 0 : body_max));
}

int main(int argc, char **argv) {
    read_options(argc, argv);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    prctl(PR_SET_TIMERSLACK, 1);
    make_request();
    poller = epoll_create1(EPOLL_CLOEXEC);
    peers = need(calloc((size_t)opt.connections, sizeof *peers));
    idle = need(calloc((size_t)opt.connections, sizeof *idle));
    for (int i = opt.connections - 1; i >= 0; i--) {
        peers[i].fd = -1;
        if (!open_up(&peers[i])) die("connect");
        idle[idle_count++] = &peers[i];
    }
    /* Closed loop: the first requests are spread over one interval, so that the streams do not beat in step. */
    uint64_t start = now_ns(), end = start + (uint64_t)(opt.seconds * 1e9), launched = 0;
    double gap_ns = opt.rate > 0 ? 1e9 / opt.rate : (double)opt.every_us * 1000.0 / opt.connections;
    struct epoll_event events[BATCH];
    for (;;) {
        uint64_t now = now_ns(), due = UINT64_MAX;
        bool first_requests = launched < (uint64_t)opt.connections;
        while (idle_count && (opt.rate > 0 || first_requests)) {
            due = start + (uint64_t)((double)launched * gap_ns);
            if (due > now || due >= end) break;
            peer *p = idle[--idle_count];
            ask(p, opt.rate > 0 ? due : now);
            if (!p->busy) idle[idle_count++] = p;
            launched++;
            first_requests = launched < (uint64_t)opt.connections;
            due = UINT64_MAX;
        }
        if (errors >= MAX_ERRORS) break;
        bool all_asked = opt.rate > 0 ? start + (uint64_t)((double)launched * gap_ns) >= end : now >= end;
        if (all_asked && idle_count == opt.connections) break;
        if (now >= end + GRACE_NS) break;
        uint64_t wait_ns = due > now && due - now < 50000000u ? due - now : 50000000u;
        struct timespec wait = {0, (long)wait_ns};
        int ready = epoll_pwait2(poller, events, BATCH, &wait, NULL);
        if (ready < 0 && errno != EINTR) die("epoll_pwait2");
        for (int i = 0; i < ready; i++) {
            peer *p = events[i].data.ptr;
            bool was_busy = p->busy;
            if (p->fd < 0) continue;
            on_readable(p);
            if (!was_busy || p->busy) continue;
            uint64_t t = now_ns();
            if (opt.rate <= 0 && t < end) ask(p, t);
            if (!p->busy) idle[idle_count++] = p;
        }
    }
    double seconds = (double)(now_ns() - start) / 1e9;
    for (int i = 0; i < opt.connections; i++)
        if (peers[i].busy) fail(&peers[i], "no whole answer within %d s after the end", (int)(GRACE_NS / 1000000000u));
    report(seconds);
    return errors || !good ? 1 : 0;
}

/*
 * Mock frontends for the benchmark: one epoll thread that serves several ports of 127.0.0.1.
 *
 *   frontend PORT...        prints "ready" once all ports listen
 *
 * POST /v1/chat/completions   unary: a JSON answer of some 600 bytes with Content-Length;
 *                             "stream":true: Server-Sent Events, chunked, each event in a send of its own.
 *                             The prompt says how: [chunks=200 every=2000us]; default 20 events without pause.
 * GET  /v1/models             the one model
 * GET  /stats                 counters since the start; requests per port, in the order of the arguments
 *
 * Each event carries the nanosecond of its sending (CLOCK_MONOTONIC) as the number in its id, always at the same
 * place, so that a load generator on the same machine knows how long the event was under way.
 *
 * Owns: being cheap and correct for requests cut anywhere or sent back to back.
 * Refuses: chunked requests (501), heads over 64 KiB (431), bodies over 16 MiB (413), other paths (404).
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
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

#define MODEL "mock-model"
#define MAX_PORTS 16
#define MAX_HEAD 65536
#define MAX_BODY (16u << 20)
#define BATCH 256
/* Events sent between two looks at the sockets, so that endless fast streams do not starve new requests. */
#define STEPS_PER_TURN 64

typedef struct conn {
    int fd;
    int port;                 /* index into the arguments */
    bool listening, streaming, wants_out, closing;
    char *in;
    size_t in_len, in_cap;    /* in_cap leaves room for the final NUL */
    char *out;
    size_t out_len, out_sent;
    long events_left;
    uint64_t interval_ns, due_ns;
    int slot;                 /* place in the timer heap, -1 = none */
} conn;

typedef enum { ALIVE, GONE } fate;

static int poller;
static int port_count;
static conn **timers;
static int timer_count, timer_cap;
static struct {
    uint64_t requests[MAX_PORTS], unary, streams, events, aborted, connections, open, models;
} count;
static char unary_answer[2048];
static size_t unary_answer_len;

static void die(const char *what) {
    fprintf(stderr, "frontend: %s: %s\n", what, strerror(errno));
    exit(1);
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

/* ---- timers: a binary heap by due time ---- */

static void place(int slot, conn *c) {
    timers[slot] = c;
    c->slot = slot;
}

static void sift_up(int slot) {
    conn *c = timers[slot];
    for (int parent; slot > 0 && timers[parent = (slot - 1) / 2]->due_ns > c->due_ns; slot = parent)
        place(slot, timers[parent]);
    place(slot, c);
}

static void sift_down(int slot) {
    conn *c = timers[slot];
    for (int child; (child = 2 * slot + 1) < timer_count; slot = child) {
        if (child + 1 < timer_count && timers[child + 1]->due_ns < timers[child]->due_ns) child++;
        if (timers[child]->due_ns >= c->due_ns) break;
        place(slot, timers[child]);
    }
    place(slot, c);
}

static void timer_add(conn *c) {
    if (timer_count == timer_cap) {
        timer_cap = timer_cap ? 2 * timer_cap : 64;
        timers = need(realloc(timers, (size_t)timer_cap * sizeof *timers));
    }
    place(timer_count++, c);
    sift_up(c->slot);
}

static void timer_drop(conn *c) {
    int slot = c->slot;
    if (slot < 0) return;
    c->slot = -1;
    conn *last = timers[--timer_count];
    if (last == c) return;
    place(slot, last);
    sift_up(slot);
    sift_down(last->slot);
}

/* ---- sending ---- */

static void watch(conn *c, bool out) {
    if (c->wants_out == out) return;
    c->wants_out = out;
    struct epoll_event e = {.events = EPOLLIN | EPOLLRDHUP | (out ? EPOLLOUT : 0u), .data.ptr = c};
    if (epoll_ctl(poller, EPOLL_CTL_MOD, c->fd, &e)) die("epoll_ctl");
}

static void hang_up(conn *c) {
    timer_drop(c);
    if (c->streaming) count.aborted++;
    count.open--;
    close(c->fd);
    free(c->in);
    free(c->out);
    free(c);
}

static fate emit(conn *c, const char *data, size_t len) {
    if (!c->out_len) {
        ssize_t sent = send(c->fd, data, len, MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN) return GONE;
        if (sent > 0) data += sent, len -= (size_t)sent;
        if (!len) return ALIVE;
    }
    c->out = need(realloc(c->out, c->out_len + len));
    memcpy(c->out + c->out_len, data, len);
    c->out_len += len;
    watch(c, true);
    return ALIVE;
}

static fate drain(conn *c) {
    while (c->out_sent < c->out_len) {
        ssize_t sent = send(c->fd, c->out + c->out_sent, c->out_len - c->out_sent, MSG_NOSIGNAL);
        if (sent < 0) return errno == EAGAIN ? ALIVE : GONE;
        c->out_sent += (size_t)sent;
    }
    c->out_len = c->out_sent = 0;
    watch(c, false);
    return ALIVE;
}

static fate answer(conn *c, const char *status, const char *body) {
    char text[4096];
    int len = snprintf(text, sizeof text,
                       "HTTP/1.1 %s\r\nserver: mock\r\ncontent-type: application/json\r\ncontent-length: %zu\r\n%s\r\n%s",
                       status, strlen(body), c->closing ? "connection: close\r\n" : "", body);
    return emit(c, text, (size_t)len);
}

static fate refuse(conn *c, const char *status) {
    c->closing = true;
    c->in_len = 0;
    return answer(c, status, "{\"error\":{\"message\":\"the mock frontend does not do that\"}}");
}

/* ---- streams ---- */

static fate stream_begin(conn *c, long events, long interval_us) {
    static const char head[] =
        "HTTP/1.1 200 OK\r\nserver: mock\r\ncontent-type: text/event-stream\r\n"
        "cache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n";
    count.streams++;
    c->streaming = true;
    c->events_left = events;
    c->interval_ns = (uint64_t)interval_us * 1000u;
    c->due_ns = now_ns();
    timer_add(c);
    return emit(c, head, sizeof head - 1);
}

/* One event, or the end. The connection is not in the heap while this runs. */
static fate stream_step(conn *c) {
    static const char end[] = "e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n";
    if (!c->events_left) {
        c->streaming = false;
        return emit(c, end, sizeof end - 1);
    }
    char event[256], framed[320];
    int len = snprintf(event, sizeof event,
                       "data: {\"id\":\"chatcmpl-%019llu\",\"object\":\"chat.completion.chunk\",\"created\":1760000000,"
                       "\"model\":\"" MODEL "\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" token\"},"
                       "\"finish_reason\":null}]}\n\n",
                       (unsigned long long)now_ns());
    int framed_len = snprintf(framed, sizeof framed, "%x\r\n%s\r\n", (unsigned)len, event);
    c->events_left--;
    count.events++;
    c->due_ns += c->interval_ns;
    return emit(c, framed, (size_t)framed_len);
}

/* ---- requests ---- */

/* The value of a header in head[0..len), or NULL; *size is its length without the blanks around it. */
static const char *header(const char *head, size_t len, const char *name, size_t *size) {
    size_t name_len = strlen(name);
    const char *end = head + len;
    for (const char *line = memchr(head, '\n', len); line && ++line < end;
         line = memchr(line, '\n', (size_t)(end - line))) {
        if ((size_t)(end - line) <= name_len || line[name_len] != ':' || strncasecmp(line, name, name_len)) continue;
        const char *value = line + name_len + 1, *stop = memchr(value, '\r', (size_t)(end - value));
        if (!stop) return NULL;
        while (value < stop && (*value == ' ' || *value == '\t')) value++;
        *size = (size_t)(stop - value);
        return value;
    }
    return NULL;
}

static fate tell_stats(conn *c) {
    char ports[MAX_PORTS * 24] = "", text[1024];
    size_t used = 0;
    for (int i = 0; i < port_count; i++)
        used += (size_t)snprintf(ports + used, sizeof ports - used, "%s%llu", i ? "," : "",
                                 (unsigned long long)count.requests[i]);
    snprintf(text, sizeof text,
             "{\"requests\":[%s],\"unary\":%llu,\"streams\":%llu,\"events\":%llu,\"aborted\":%llu,"
             "\"connections\":%llu,\"open\":%llu,\"models\":%llu}",
             ports, (unsigned long long)count.unary, (unsigned long long)count.streams,
             (unsigned long long)count.events, (unsigned long long)count.aborted,
             (unsigned long long)count.connections, (unsigned long long)count.open, (unsigned long long)count.models);
    return answer(c, "200 OK", text);
}

static fate serve_get(conn *c, const char *path, size_t len) {
    if (len == 6 && !memcmp(path, "/stats", 6)) return tell_stats(c);
    if (len == 7 && !memcmp(path, "/health", 7)) return answer(c, "200 OK", "{\"status\":\"healthy\"}");
    if (len == 10 && !memcmp(path, "/v1/models", 10)) {
        count.models++;
        return answer(c, "200 OK",
                      "{\"object\":\"list\",\"data\":[{\"id\":\"" MODEL "\",\"object\":\"model\","
                      "\"created\":1760000000,\"owned_by\":\"mock\"}]}");
    }
    return answer(c, "404 Not Found", "{\"error\":{\"message\":\"no such path\"}}");
}

static fate serve_completion(conn *c, const char *body, size_t len) {
    count.requests[c->port]++;
    if (!memmem(body, len, "\"stream\":true", 13) && !memmem(body, len, "\"stream\": true", 14)) {
        count.unary++;
        return emit(c, unary_answer, unary_answer_len);
    }
    long events = 20, interval_us = 0;
    const char *mark = memmem(body, len, "[chunks=", 8);
    if (mark && (sscanf(mark, "[chunks=%ld every=%ldus]", &events, &interval_us) != 2 || events < 0 || interval_us < 0))
        return refuse(c, "400 Bad Request");
    return stream_begin(c, events, interval_us);
}

/* Serves the first request of the buffer when it is whole: 1 served, 0 not whole yet, -1 gone. */
static int serve_one(conn *c) {
    char *head_end = memmem(c->in, c->in_len, "\r\n\r\n", 4);
    if (!head_end) return c->in_len > MAX_HEAD && refuse(c, "431 Request Header Fields Too Large") == GONE ? -1 : 0;
    size_t head_len = (size_t)(head_end - c->in) + 4, size, body_len = 0;
    if (header(c->in, head_len, "transfer-encoding", &size))
        return refuse(c, "501 Not Implemented") == GONE ? -1 : 0;
    const char *value = header(c->in, head_len, "content-length", &size);
    if (value) body_len = strtoul(value, NULL, 10);
    if (body_len > MAX_BODY) return refuse(c, "413 Content Too Large") == GONE ? -1 : 0;
    if (c->in_len < head_len + body_len) return 0;
    value = header(c->in, head_len, "connection", &size);
    if (value && size == 5 && !strncasecmp(value, "close", 5)) c->closing = true;

    fate f;
    char *path = memchr(c->in, ' ', head_len), *path_end = path ? memchr(path + 1, ' ', head_len - (size_t)(path + 1 - c->in)) : NULL;
    if (!path_end) return refuse(c, "400 Bad Request") == GONE ? -1 : 0;
    size_t path_len = (size_t)(path_end - ++path);
    char after = c->in[head_len + body_len];
    c->in[head_len + body_len] = 0;
    if (!memcmp(c->in, "GET ", 4))
        f = serve_get(c, path, path_len);
    else if (!memcmp(c->in, "POST ", 5) && path_len == 20 && !memcmp(path, "/v1/chat/completions", 20))
        f = serve_completion(c, c->in + head_len, body_len);
    else
        f = answer(c, "404 Not Found", "{\"error\":{\"message\":\"no such path\"}}");
    c->in[head_len + body_len] = after;
    if (f == GONE) return -1;
    if (c->in_len) {  /* a refusal has emptied it */
        c->in_len -= head_len + body_len;
        memmove(c->in, c->in + head_len + body_len, c->in_len);
    }
    return 1;
}

static fate serve(conn *c) {
    int served = 1;
    while (served == 1 && !c->streaming && !c->closing && c->in_len) served = serve_one(c);
    if (served < 0) return GONE;
    return c->closing && !c->streaming && !c->out_len ? GONE : ALIVE;
}

static fate take_in(conn *c) {
    for (;;) {
        if (c->in_cap - c->in_len < 4096) {
            c->in_cap = c->in_cap ? 2 * c->in_cap : 8192;
            c->in = need(realloc(c->in, c->in_cap + 1));
        }
        size_t room = c->in_cap - c->in_len;
        ssize_t got = recv(c->fd, c->in + c->in_len, room, 0);
        if (got < 0) return errno == EAGAIN ? serve(c) : GONE;
        if (got == 0) return GONE;
        c->in_len += (size_t)got;
        if ((size_t)got < room) return serve(c);
        if (c->in_len > MAX_BODY + 2 * MAX_HEAD) return GONE;
    }
}

/* ---- the loop ---- */

static void take_connections(conn *listener) {
    for (;;) {
        int fd = accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC), one = 1;
        if (fd < 0) return;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        conn *c = need(calloc(1, sizeof *c));
        c->fd = fd;
        c->port = listener->port;
        c->slot = -1;
        count.connections++;
        count.open++;
        struct epoll_event e = {.events = EPOLLIN | EPOLLRDHUP, .data.ptr = c};
        if (epoll_ctl(poller, EPOLL_CTL_ADD, fd, &e)) die("epoll_ctl");
    }
}

static void on_event(conn *c, uint32_t events) {
    if (c->listening) {
        take_connections(c);
        return;
    }
    fate f = events & (EPOLLHUP | EPOLLERR) ? GONE : ALIVE;
    if (f == ALIVE && events & EPOLLOUT && (f = drain(c)) == ALIVE && !c->out_len) {
        if (!c->streaming) {
            f = serve(c);
        } else if (c->slot < 0) {  /* the reader caught up: go on from now, not in a burst */
            uint64_t now = now_ns();
            if (c->due_ns < now) c->due_ns = now;
            timer_add(c);
        }
    }
    if (f == ALIVE && events & (EPOLLIN | EPOLLRDHUP)) f = take_in(c);
    if (f == GONE) hang_up(c);
}

static void run_timers(void) {
    for (int steps = 0; timer_count && steps < STEPS_PER_TURN; steps++) {
        conn *c = timers[0];
        if (c->due_ns > now_ns()) return;
        timer_drop(c);
        fate f = stream_step(c);
        if (f == ALIVE && c->streaming && !c->out_len) timer_add(c);
        if (f == ALIVE && !c->streaming) f = serve(c);
        if (f == GONE) hang_up(c);
    }
}

static void listen_on(int index, const char *text) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), one = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(text)),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, (struct sockaddr *)&address, sizeof address) || listen(fd, 4096)) die(text);
    conn *c = need(calloc(1, sizeof *c));
    c->fd = fd;
    c->port = index;
    c->listening = true;
    c->slot = -1;
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};
    if (epoll_ctl(poller, EPOLL_CTL_ADD, fd, &e)) die("epoll_ctl");
}

static void make_unary_answer(void) {
    char body[1024], text[400] = "";
    while (strlen(text) < 300) strcat(text, "A load balancer that adds little is one nobody thinks of. ");
    int len = snprintf(body, sizeof body,
                       "{\"id\":\"chatcmpl-0000000000000000001\",\"object\":\"chat.completion\",\"created\":1760000000,"
                       "\"model\":\"" MODEL "\",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\","
                       "\"content\":\"%s\"},\"finish_reason\":\"stop\"}],"
                       "\"usage\":{\"prompt_tokens\":230,\"completion_tokens\":64,\"total_tokens\":294}}",
                       text);
    unary_answer_len = (size_t)snprintf(unary_answer, sizeof unary_answer,
                                        "HTTP/1.1 200 OK\r\nserver: mock\r\ncontent-type: application/json\r\n"
                                        "content-length: %d\r\n\r\n%s",
                                        len, body);
}

int main(int argc, char **argv) {
    port_count = argc - 1;
    if (port_count < 1 || port_count > MAX_PORTS) {
        fprintf(stderr, "usage: frontend PORT... (1 to %d)\n", MAX_PORTS);
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    prctl(PR_SET_PDEATHSIG, SIGTERM);  /* never outlive the harness */
    prctl(PR_SET_TIMERSLACK, 1);       /* chunks leave when they are due, not 50 us later */
    make_unary_answer();
    poller = epoll_create1(EPOLL_CLOEXEC);
    for (int i = 0; i < port_count; i++) listen_on(i, argv[i + 1]);
    puts("ready");
    fflush(stdout);
    struct epoll_event events[BATCH];
    for (;;) {
        struct timespec wait = {0, 0}, *limit = NULL;
        if (timer_count) {
            uint64_t now = now_ns(), due = timers[0]->due_ns, left = due > now ? due - now : 0;
            wait.tv_sec = (time_t)(left / 1000000000u);
            wait.tv_nsec = (long)(left % 1000000000u);
            limit = &wait;
        }
        int ready = epoll_pwait2(poller, events, BATCH, limit, NULL);
        if (ready < 0 && errno != EINTR) die("epoll_pwait2");
        for (int i = 0; i < ready; i++) on_event(events[i].data.ptr, events[i].events);
        run_timers();
    }
}

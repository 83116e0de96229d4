/* Time the NVTX ranges of a program that runs without nsys.
 *
 * NVTX loads this library through NVTX_INJECTION64_PATH. At exit each process writes its ranges of the
 * default domain to $NSYSWRAP_NVTX_TIMES.<pid>, a line for each range that ended: thread, start and end in ns
 * of CLOCK_MONOTONIC, and the name. It costs one lock and one clock for each start and end, and a copy of the
 * name for each start. Ranges of other domains belong to libraries and are ignored. A process that ends
 * through _exit writes nothing.
 *
 * What follows is declared as NVTX 3 does in nvtxTypes.h and nvToolsExt.h, so that no CUDA toolkit is needed.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>

enum { CALLBACKS = 1 };      /* the export table */
enum { CORE = 1, CORE2 = 5 }; /* modules; their functions: */
enum { START_EX = 4, START_A, START_W, END, PUSH_EX, PUSH_A, PUSH_W, POP };
enum { DOMAIN_START = 2, DOMAIN_END, DOMAIN_PUSH, DOMAIN_POP };
enum { REGISTER_A = 10, REGISTER_W, CREATE_A, CREATE_W };
enum { ASCII = 1, WIDE, REGISTERED }; /* kinds of a message */

typedef void (*Function)(void);

typedef struct {
    size_t size;
    int (*functions)(int module, Function ***table, unsigned *count);
} Callbacks;

typedef struct {
    uint16_t version, size;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type, reserved;
    uint64_t payload;
    int32_t message_type;
    const void *message;
} Attributes;

typedef struct {
    int64_t start, end; /* end is 0 while the range is open */
    char *name;
    int thread;
} Range;

enum { MOST_RANGES = 1 << 22, DEEPEST = 256 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Range *ranges;
static size_t count, room;
static __thread uint64_t stack[DEEPEST];
static __thread int depth;
static __thread int thread; /* id, 0 until the first range */
static int a_domain; /* its address stands for every domain but the default one */

static int64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

/* Return a copy of a text, with blanks for control characters: each range is one line of the file. */
static char *copied(const char *text)
{
    char *copy = strdup(text ? text : "");
    for (char *c = copy; c && *c; c++)
        if ((unsigned char)*c < ' ')
            *c = ' ';
    return copy;
}

/* Characters beyond ASCII become '?': such a name is not found again. */
static char *narrowed(const wchar_t *text)
{
    size_t length = text ? wcslen(text) : 0;
    char *copy = calloc(length + 1, 1);
    for (size_t i = 0; copy && i < length; i++)
        copy[i] = text[i] >= ' ' && text[i] < 127 ? (char)text[i] : '?';
    return copy;
}

static char *name_of(const Attributes *event)
{
    if (event && event->message_type == WIDE)
        return narrowed(event->message);
    if (event && (event->message_type == ASCII || event->message_type == REGISTERED))
        return copied(event->message); /* a handle of ours is its text */
    return copied(NULL);
}

/* Begin a range; return its number from 1, or 0 if it cannot be kept. The name is owned. */
static uint64_t begin(char *name)
{
    uint64_t number = 0;
    if (!thread)
        thread = (int)syscall(SYS_gettid);
    pthread_mutex_lock(&lock);
    if (count == room && room < MOST_RANGES) {
        size_t more = room ? 2 * room : 4096;
        Range *larger = realloc(ranges, more * sizeof *ranges);
        if (larger)
            ranges = larger, room = more;
    }
    if (name && count < room) {
        ranges[count] = (Range){now(), 0, name, thread};
        number = ++count;
    }
    pthread_mutex_unlock(&lock);
    if (!number)
        free(name);
    return number;
}

static void finish(uint64_t number)
{
    int64_t end = now();
    pthread_mutex_lock(&lock);
    if (number && number <= count && !ranges[number - 1].end)
        ranges[number - 1].end = end;
    pthread_mutex_unlock(&lock);
}

static int push(char *name)
{
    if (depth < DEEPEST)
        stack[depth] = begin(name);
    else
        free(name);
    return depth++;
}

static int pop(void)
{
    if (!depth)
        return -1;
    if (--depth < DEEPEST)
        finish(stack[depth]);
    return depth;
}

static uint64_t start_ex(const Attributes *event) { return begin(name_of(event)); }
static uint64_t start_a(const char *name) { return begin(copied(name)); }
static uint64_t start_w(const wchar_t *name) { return begin(narrowed(name)); }
static int push_ex(const Attributes *event) { return push(name_of(event)); }
static int push_a(const char *name) { return push(copied(name)); }
static int push_w(const wchar_t *name) { return push(narrowed(name)); }
static uint64_t domain_start(void *domain, const Attributes *event) { return domain ? 0 : start_ex(event); }
static void domain_end(void *domain, uint64_t number) { domain ? (void)0 : finish(number); }
static int domain_push(void *domain, const Attributes *event) { return domain ? 0 : push_ex(event); }
static int domain_pop(void *domain) { return domain ? 0 : pop(); }
static void *register_a(void *domain, const char *text) { return (void)domain, copied(text); }
static void *register_w(void *domain, const wchar_t *text) { return (void)domain, narrowed(text); }
static void *create(const void *name) { return (void)name, &a_domain; }

/* A forked child has the ranges of its parent, but they are not its own. */
static void forget(void)
{
    pthread_mutex_init(&lock, NULL);
    count = 0;
    depth = 0;
    thread = 0;
}

__attribute__((destructor)) static void write_ranges(void)
{
    const char *base = getenv("NSYSWRAP_NVTX_TIMES");
    char path[4096];
    if (!count || !base || snprintf(path, sizeof path, "%s.%d", base, (int)getpid()) >= (int)sizeof path)
        return;
    FILE *file = fopen(path, "w");
    pthread_mutex_lock(&lock);
    for (size_t i = 0; file && i < count; i++)
        if (ranges[i].end)
            fprintf(file, "%d %lld %lld %s\n", ranges[i].thread, (long long)ranges[i].start,
                    (long long)ranges[i].end, ranges[i].name);
    pthread_mutex_unlock(&lock);
    if (file)
        fclose(file);
}

static void set(Function **table, unsigned size, unsigned id, Function function)
{
    if (id < size && table[id])
        *table[id] = function;
}

#define SET(id, function) set(table, size, id, (Function)(function))

__attribute__((visibility("default"))) int InitializeInjectionNvtx2(const void *(*export_table)(uint32_t))
{
    const Callbacks *callbacks = export_table(CALLBACKS);
    Function **table;
    unsigned size;
    if (!callbacks || callbacks->size < sizeof *callbacks)
        return 0;
    if (callbacks->functions(CORE, &table, &size)) {
        SET(START_EX, start_ex), SET(START_A, start_a), SET(START_W, start_w), SET(END, finish);
        SET(PUSH_EX, push_ex), SET(PUSH_A, push_a), SET(PUSH_W, push_w), SET(POP, pop);
    }
    if (callbacks->functions(CORE2, &table, &size)) {
        SET(DOMAIN_START, domain_start), SET(DOMAIN_END, domain_end), SET(DOMAIN_PUSH, domain_push);
        SET(DOMAIN_POP, domain_pop), SET(REGISTER_A, register_a), SET(REGISTER_W, register_w);
        SET(CREATE_A, create), SET(CREATE_W, create);
    }
    static int once;
    if (!once++) /* NVTX in each library of the program loads this file once more */
        pthread_atfork(NULL, NULL, forget);
    return 1;
}

/* A monitor on the serial line: arms hooks, has the work done, and prints the calls. */
#include "hooks.h"
#include "machine.h"
#include "work.h"

static const char HELP[] = "arm GLOB, disarm GLOB: have the calls of functions printed, or not\n"
                           "run N: N rounds of work on this processor\n"
                           "other N: N rounds of work on the second one\n"
                           "start, stop: work on the second one without end\n"
                           "storm N: arm and disarm everything N times meanwhile\n"
                           "counts: how often each function says it was called, and forget that\n"
                           "quit: switch the machine off\n";

#define FOREVER UINT64_MAX

static void print(const char *text)
{
    for (; *text; text++)
        put(*text);
}

static void print_number(uint64_t number)
{
    char digits[21], *at = digits + 20;

    *at = 0;
    do
        *--at = (char)('0' + number % 10);
    while (number /= 10);
    print(at);
}

/* Something has gone wrong, and the processor says what and where. */
_Noreturn void fail(uint64_t what, uint64_t where)
{
    print("fault ");
    print_number(what);
    print(" at ");
    print_number(where);
    print("\n");
    power_off();
}

/* Prints an event: "1     > sort", and "1     < sort 25 us" when it returns. */
static void print_event(size_t processor, const struct hooks_event *event)
{
    print_number(processor);
    print(" ");
    for (uint64_t depth = 0; depth < event->depth; depth++)
        print("  ");
    print(event->caller ? "> " : "< ");
    print(hooks_name(event->hook));
    if (!event->caller) {
        print(" ");
        print_number(event->took * 1000000 / clock_rate());
        print(" us");
    }
    print("\n");
}

/* Whether there was anything. */
static int print_events(void)
{
    struct hooks_event event;
    int any = 0;

    for (size_t processor = 0; processor < 2; processor++) {
        for (int some = 0; some < 64 && hooks_next(processor, &event); some++, any = 1)
            print_event(processor, &event);
        size_t lost = hooks_lost(processor);
        if (lost) {
            print_number(lost);
            print(" events lost\n");
        }
    }
    return any;
}

/* The second processor does `amount` rounds for each new number in `order`, unless it's told to halt, and puts that number
 * into `done` then. */
static unsigned order, done;
static uint64_t amount, rounds;
static bool halt, is_wrong;

void second(void)
{
    for (uint32_t seed = 0;;) {
        unsigned now = __atomic_load_n(&order, __ATOMIC_ACQUIRE);
        if (now == done) {
            relax();
            continue;
        }
        for (uint64_t left = amount; left && !__atomic_load_n(&halt, __ATOMIC_RELAXED); left--, seed++) {
            uint32_t once = work(1, seed);
            /* The same, whatever is armed. */
            is_wrong |= once != work(1, seed);
            rounds += 2;
        }
        __atomic_store_n(&done, now, __ATOMIC_RELEASE);
    }
}

static void print_counts(void)
{
    for (unsigned which = 0; which < 2; which++)
        for (unsigned number = 0; number < WORK_FUNCTIONS; number++) {
            if (work_counts[which][number]) {
                print("counted ");
                print_number(which);
                print(" ");
                print(work_names[number]);
                print(" ");
                print_number(work_counts[which][number]);
                print("\n");
            }
            work_counts[which][number] = 0;
        }
}

static void change(const char *glob, int armed)
{
    int count = hooks_change(glob, armed);

    if (count < 0) {
        print("the code can't be written\n");
        return;
    }
    print(armed ? "armed " : "disarmed ");
    print_number((uint64_t)count);
    print("\n");
}

static void run(uint64_t times)
{
    uint32_t value = 0;

    for (uint64_t round = 0; round < times; round++) {
        value = work(0, value);
        while (print_events())
            ;
    }
    print("result ");
    print_number(value);
    print("\n");
}

static void start(uint64_t rounds_wanted)
{
    rounds = 0;
    halt = false;
    amount = rounds_wanted;
    __atomic_store_n(&order, order + 1, __ATOMIC_RELEASE);
}

static void await_end(void)
{
    while (__atomic_load_n(&done, __ATOMIC_ACQUIRE) != order || print_events())
        print_events();
    print_number(rounds);
    print(is_wrong ? " rounds, wrong\n" : " rounds, right\n");
}

static void stop(void)
{
    __atomic_store_n(&halt, true, __ATOMIC_RELAXED);
    await_end();
}

/* What the second processor's functions say. */
static uint64_t counted(void)
{
    uint64_t sum = 0;

    for (unsigned number = 0; number < WORK_FUNCTIONS; number++)
        sum += work_counts[1][number];
    return sum;
}

/* Each call that begins while everything is armed is seen, and none of those while nothing is. Whenever this
 * processor looks, the other one may be between the hook of a function and where it's counted, before and after. */
static void storm(uint64_t times)
{
    struct hooks_event event;
    uint64_t seen = 0, wrong = 0;

    for (uint64_t time = 0; time < times; time++) {
        uint64_t seen_before = hooks_seen(1), before = counted();
        hooks_change("*", true);
        uint64_t armed = counted();
        while (hooks_next(1, &event))
            ;
        uint64_t disarmed = counted();
        hooks_change("*", false);
        uint64_t calls = hooks_seen(1) - seen_before, after = counted();
        seen += calls;
        if (calls + 2 < disarmed - armed || calls > after - before + 2)
            wrong++;
        hooks_lost(1);
    }
    print_number(seen);
    print(" seen, ");
    print_number(wrong);
    print(" times wrong\n");
}

/* Does the line begin with this word? Then `*rest` is what follows. */
static int is(const char *line, const char *word, const char **rest)
{
    while (*word && *line == *word)
        line++, word++;
    if (*word || (*line && *line != ' '))
        return 0;
    while (*line == ' ')
        line++;
    *rest = line;
    return 1;
}

static uint64_t number(const char *text)
{
    uint64_t value = 0;

    while (*text >= '0' && *text <= '9')
        value = value * 10 + (uint64_t)(*text++ - '0');
    return value;
}

static void read_line(char *line, unsigned size)
{
    unsigned length = 0;

    for (;;) {
        int c = get();
        put(c == '\r' ? '\n' : (char)c);
        if (c == '\r' || c == '\n')
            break;
        if (length + 1 < size)
            line[length++] = (char)c;
    }
    line[length] = 0;
}

static void obey(const char *line, int has_second)
{
    const char *rest;

    if (is(line, "arm", &rest))
        change(rest, 1);
    else if (is(line, "disarm", &rest))
        change(rest, 0);
    else if (is(line, "run", &rest))
        run(number(rest));
    else if (is(line, "counts", &rest))
        print_counts();
    else if (is(line, "other", &rest) && has_second) {
        start((number(rest) + 1) / 2);
        await_end();
    } else if (is(line, "start", &rest) && has_second)
        start(FOREVER);
    else if (is(line, "stop", &rest) && has_second)
        stop();
    else if (is(line, "storm", &rest))
        storm(number(rest));
    else if (is(line, "quit", &rest))
        power_off();
    else
        print(HELP);
}

void first(void)
{
    char line[80];

    int hooks = hooks_idle();
    machine_init();
    int has_second = start_second();
    print_number((uint64_t)hooks);
    print(" hooks are idle, ");
    print_number(has_second ? 2 : 1);
    print(has_second ? " processors\n" : " processor\n");
    for (;;) {
        print("> ");
        read_line(line, sizeof line);
        obey(line, has_second);
    }
}

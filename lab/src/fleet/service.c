/* A service: handle() parses a request and renders an answer. SLOW makes parse() take longer. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define NI __attribute__((noinline))
#ifndef SLOW
#define SLOW 0
#endif

static volatile unsigned sink;

NI static void turn(unsigned count) {
    for (unsigned at = 0; at < count; at++)
        sink += at;
}

NI static void parse(void) {
    for (int field = 0; field < 8; field++)
        turn(200 + 200 * SLOW);
}

NI static void render(void) {
    for (int line = 0; line < 4; line++)
        turn(800);
}

NI static void handle(void) {
    parse();
    render();
}

int main(void) {
    puts("ready");
    fflush(stdout);
    for (;;) {
        for (int request = 0; request < 20; request++)
            handle();
        usleep(1000);
    }
}
